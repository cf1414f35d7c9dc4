metadata name = 'App settings'
metadata description = 'Every app setting: what the Functions runtime and its bindings read, and what the code of LUCIUS reads.'

import { identityType } from 'shapes.bicep'
import { ledgerType, runtimeType } from 'storage.bicep'

@description('Required. Name of the app.')
param appName string

@description('Required. What runs the app.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
])
param hosting string

@description('Required. The app\'s identity.')
param identity identityType

@description('Required. Address of the container that deployed packages stand in.')
param packageUri string

@description('Required. Storage of the Functions runtime.')
param runtimeStorage runtimeType

@description('Required. Where the ledger stands.')
param ledger ledgerType

@description('Required. Where attempts get their folders: a container\'s address.')
param workspaceUri string

@description('Required. Days after which the workspaces of attempts are deleted; 0: never.')
@minValue(0)
param workspaceRetentionDays int

@description('Required. What jobs may refer to: `host/container`. `tuning` may name others instead.')
@minLength(1)
param referenceHosts string[]

@description('Required. Host name of the Service Bus namespace.')
param serviceBusNamespace string

@description('Required. Backend of Durable Functions and its task hub.')
param durable {
  @description('Required. The backend.')
  backend: 'DurableTaskScheduler' | 'AzureStorage'

  @description('Required. Name of the task hub.')
  taskHubName: string

  @description('Optional. Address of the scheduler; needed with DurableTaskScheduler.')
  endpoint: string?
}

@description('Optional. Host name of another Service Bus namespace, which has the topic of public events. Empty: the bus has it.')
param eventsNamespace string = ''

@description('Optional. Address of the App Configuration store. Empty: the packaged protocols rule.')
param appConfigurationEndpoint string = ''

@description('Optional. Address of the secret with callback keys. Empty: no callbacks.')
param callbackKeysUri string = ''

@description('Optional. Address of the secret with the keys of webhooks. Empty: no webhooks.')
param webhookKeysUri string = ''

@description('Required. Name of the environment, in the source of public events.')
param environmentName string

@description('Required. The app\'s own address as callers and platform services see it.')
param publicUrl string

@description('Required. Whose tokens are taken.')
param auth authType

@description('Optional. Settings of LUCIUS that differ from their defaults.')
param tuning tuningType = {}

@description('Required. Where telemetry goes.')
param applicationInsightsConnectionString string

@export()
@description('Whose tokens are taken (RFC 9068).')
@sealed()
type authType = {
  @description('Required. `iss` of the tokens, exactly.')
  @minLength(8)
  issuer: string

  @description('Required. `aud` of the tokens; one of several, with commas between.')
  @minLength(1)
  audience: string

  @description('Required. Where the issuer publishes its keys.')
  @minLength(8)
  jwksUrl: string

  @description('Required. Claim that names the caller\'s LUCIUS tenant, where `tenants` does not.')
  @minLength(1)
  tenantClaim: string

  @description('Required. LUCIUS tenants by values of claims; {}: none.')
  tenants: tenantsType
}

@export()
@description('LUCIUS tenants by values of claims: `{ azp: { CLIENT_ID: \'contoso\' }, groups: { GROUP_ID: \'fabrikam\' } }`.')
type tenantsType = {
  @description('Optional. A claim of tokens: its values and their tenants.')
  *: {
    @description('Optional. The tenant of the callers whose claim has this value.')
    *: string
  }
}

@export()
@description('Settings of LUCIUS, by their names (docs/reference/settings.md). What is absent has its default.')
@sealed()
// generated: tuning
type tuningType = {
  @description('Optional. `direct`: the ledger\'s rows travel by the app\'s own HTTP calls; `sdk`: by Microsoft\'s SDK, which takes a multiple of the CPU.')
  LUCIUS_TABLE_TRANSPORT: string?

  @description('Optional. `feed`: what happens to jobs is written into their tenants\' feeds; `topic`: these are passed on to the topic `lucius-events` as well; `off`: neither.')
  LUCIUS_EVENTS: string?

  @description('Optional. Seconds after which a heartbeat whose `progress` is new is written, if the lease needs none; at least 5.')
  LUCIUS_PROGRESS_SECONDS: string?

  @description('Optional. Days that a public event stays in its tenant\'s feed.')
  LUCIUS_FEED_DAYS: string?

  @description('Optional. Days that log entries of quotas and removed webhooks, and settled incidents of breakers and services, are kept, and ended bulk operations if LUCIUS_RETENTION_DAYS is unset; at least 32.')
  LUCIUS_CHANGE_LOG_DAYS: string?

  @description('Optional. Attempts a step may have, over all causes except publishing.')
  LUCIUS_MAX_ATTEMPTS: string?

  @description('Optional. Seconds from the directive to its ACK.')
  LUCIUS_ACK_TIMEOUT_SECONDS: string?

  @description('Optional. Seconds of the lease, from the ACK on; a heartbeat restarts it.')
  LUCIUS_STEP_RESULT_TIMEOUT_SECONDS: string?

  @description('Optional. Longest time of an attempt in seconds, from its ACK on; no heartbeat extends it.')
  LUCIUS_ATTEMPT_MAX_SECONDS: string?

  @description('Optional. Longest time of a job in seconds, from its creation on; the time that it is PAUSED does not count.')
  LUCIUS_JOB_TOTAL_TIMEOUT_SECONDS: string?

  @description('Optional. Seconds to wait after each publish fault, with commas between; the last entry does not repeat.')
  LUCIUS_DISPATCH_BACKOFF_SECONDS: string?

  @description('Optional. Seconds to wait after each ACK timeout, with commas between; the last entry repeats.')
  LUCIUS_ACK_BACKOFF_SECONDS: string?

  @description('Optional. Seconds to wait after each failed execution, with commas between; the last entry repeats.')
  LUCIUS_EXECUTION_BACKOFF_SECONDS: string?

  @description('Optional. Days after a job\'s end in which the same request is still that job.')
  LUCIUS_IDEMPOTENCY_TTL_DAYS: string?

  @description('Optional. Days that a job is kept after its end, at least LUCIUS_IDEMPOTENCY_TTL_DAYS; then its audit bundle goes to the blob container `lucius-archive` and its rows are deleted; unset: for ever.')
  LUCIUS_RETENTION_DAYS: string?

  @description('Optional. Active jobs a tenant may have, where no rule of `lucius quota` says otherwise; exact.')
  LUCIUS_MAX_INFLIGHT_PER_TENANT: string?

  @description('Optional. What becomes of a request over a limit of the settings: `reject` (429), or `stage`: it waits in line.')
  LUCIUS_OVERFLOW: string?

  @description('Optional. Active jobs of all tenants, where no rule of `lucius quota` says otherwise; exact.')
  LUCIUS_MAX_INFLIGHT: string?

  @description('Optional. Active jobs in mode BURST, where no rule of `lucius quota` says otherwise; exact.')
  LUCIUS_MAX_INFLIGHT_BURST: string?

  @description('Optional. NCRONTAB schedule of the sweeper, with seconds.')
  LUCIUS_SWEEP_SCHEDULE: string?

  @description('Optional. Timer functions that share the tenants\' jobs (docs/explanation/scale.md: how many a rate needs).')
  LUCIUS_SWEEPERS: string?

  @description('Optional. Mode of requests that name none, where App Configuration names none: `DEFAULT` (older name: `SAFE`) or `BURST`.')
  LUCIUS_DEFAULT_MODE: string?

  @description('Optional. Seconds between two reads of App Configuration.')
  LUCIUS_APPCONFIG_REFRESH_SECONDS: string?

  @description('Optional. Hosts that webhooks may go to although they are IP addresses, in a private network, or at another port than 443: `HOST`, `HOST:PORT` or `HOST:*`, with commas between, by https or http; `TENANT@HOST:PORT` for one tenant, else for every tenant. A name leads where its DNS says: list none whose DNS is not yours.')
  LUCIUS_WEBHOOK_HOSTS: string?

  @description('Optional. Claim whose text is the source of every job that its caller submits, whatever the request says; unset, or missing in the token: the request\'s.')
  LUCIUS_AUTH_SOURCE_CLAIM: string?

  @description('Optional. Value of `roles` for operators of all tenants: with `:read` behind it they see every tenant\'s jobs, with `:operate` they move them; alone, in this release, both.')
  LUCIUS_AUTH_ALL_TENANTS_ROLE: string?

  @description('Optional. Schemes of references, with commas between; default: `https,s3,abfss`, and `http` outside Azure.')
  LUCIUS_ALLOWED_REF_SCHEMES: string?

  @description('Optional. Hosts of references, `host/container` or `host/container/prefix`, matched exactly, with commas between; `{tenant}` stands for the tenant, a port other than the scheme\'s own belongs to the host; default: any; the template names the containers of its own account.')
  LUCIUS_ALLOWED_REF_HOSTS: string?
}
// end

var topology = loadJsonContent('../topology.json')

// What the runtime and its bindings read.
var hostSettings = {
  AzureWebJobsStorage__credential: 'managedidentity'
  AzureWebJobsStorage__clientId: identity.clientId
  AzureWebJobsStorage__blobServiceUri: runtimeStorage.blobEndpoint
  AzureWebJobsStorage__queueServiceUri: runtimeStorage.queueEndpoint
  AzureWebJobsStorage__tableServiceUri: runtimeStorage.tableEndpoint
  LUCIUS_SERVICEBUS_CONNECTION__fullyQualifiedNamespace: serviceBusNamespace
  LUCIUS_SERVICEBUS_CONNECTION__credential: 'managedidentity'
  LUCIUS_SERVICEBUS_CONNECTION__clientId: identity.clientId
  APPLICATIONINSIGHTS_CONNECTION_STRING: applicationInsightsConnectionString
  APPLICATIONINSIGHTS_AUTHENTICATION_STRING: 'ClientId=${identity.clientId};Authorization=AAD'
  TASKHUB_NAME: durable.taskHubName
  // The app refuses more than 1 MiB with 413. The host ends what is larger than this with 500, before the app has it in memory.
  FUNCTIONS_REQUEST_BODY_SIZE_LIMIT: '2097152'
}

// The backend itself stands in the host.json of the package, where the scale controller reads it; no setting can say it there.
var schedulerSettings = {
  DURABLE_TASK_SCHEDULER_CONNECTION_STRING: 'Endpoint=${durable.?endpoint ?? ''};Authentication=ManagedIdentity;ClientID=${identity.clientId}'
}

// What the app's own code reads; AZURE_CLIENT_ID tells its SDKs which identity it is.
var appSettings = {
  AZURE_CLIENT_ID: identity.clientId
  LUCIUS_SERVICEBUS_LANES: string(topology.lanes)
  LUCIUS_SERVICEBUS_REPLY_PREFIX: topology.replies.prefix
  LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION: topology.replies.subscription
  LUCIUS_STORAGE_BACKEND: 'tables'
  LUCIUS_TABLE_ENDPOINT: ledger.tableEndpoint
  LUCIUS_BLOB_ENDPOINT: ledger.blobEndpoint
  LUCIUS_LEDGER_TABLE: ledger.ledgerTable
  LUCIUS_INDEX_TABLE: ledger.indexTable
  LUCIUS_TENANTS_TABLE: ledger.tenantsTable
  LUCIUS_REJECTED_TABLE: ledger.rejectedTable
  LUCIUS_WORKSPACE_URI: workspaceUri
  LUCIUS_WORKSPACE_DAYS: string(workspaceRetentionDays)
  LUCIUS_ALLOWED_REF_HOSTS: join(referenceHosts, ',')
  LUCIUS_PUBLIC_URL: publicUrl
  LUCIUS_ENVIRONMENT: environmentName
  LUCIUS_AUTH_MODE: 'jwt'
  LUCIUS_AUTH_ISSUER: auth.issuer
  LUCIUS_AUTH_AUDIENCE: auth.audience
  LUCIUS_AUTH_JWKS_URL: auth.jwksUrl
  LUCIUS_AUTH_TENANT_CLAIM: auth.tenantClaim
  LUCIUS_AUTH_TENANTS: string(auth.tenants)
}

// Flex Consumption knows these by functionAppConfig and refuses them as settings.
var premiumSettings = {
  FUNCTIONS_EXTENSION_VERSION: '~4'
  FUNCTIONS_WORKER_RUNTIME: 'python'
  WEBSITE_RUN_FROM_PACKAGE: '${packageUri}/released-package.zip'
  WEBSITE_RUN_FROM_PACKAGE_BLOB_MI_RESOURCE_ID: identity.resourceId
}

resource app 'Microsoft.Web/sites@2025-03-01' existing = {
  name: appName
}

resource settings 'Microsoft.Web/sites/config@2025-03-01' = {
  parent: app
  name: 'appsettings'
  properties: union(
    hostSettings,
    durable.backend == 'DurableTaskScheduler' ? schedulerSettings : {},
    appSettings,
    empty(appConfigurationEndpoint) ? {} : { LUCIUS_APPCONFIG_ENDPOINT: appConfigurationEndpoint },
    empty(eventsNamespace) ? {} : { LUCIUS_EVENTS_CONNECTION__fullyQualifiedNamespace: eventsNamespace },
    empty(callbackKeysUri) ? {} : { LUCIUS_CALLBACK_KEYS: '@Microsoft.KeyVault(SecretUri=${callbackKeysUri})' },
    empty(webhookKeysUri) ? {} : { LUCIUS_WEBHOOK_KEYS: '@Microsoft.KeyVault(SecretUri=${webhookKeysUri})' },
    hosting == 'FlexConsumption' ? {} : premiumSettings,
    tuning
  )
}
