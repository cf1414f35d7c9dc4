metadata name = 'App settings'
metadata description = 'The app settings of the Functions runtime, its bindings and LUCIUS.'

import { identityType } from 'shapes.bicep'
import { ledgerType, runtimeType } from 'storage.bicep'

@description('Required. Name of the app.')
param appName string

@description('Required. Hosting plan of the app.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
  'AppService'
])
param hosting string

@description('Required. The app\'s identity.')
param identity identityType

@description('Required. URL of the container with the deployed packages.')
param packageUri string

@description('Required. Storage of the Functions runtime.')
param runtimeStorage runtimeType

@description('Required. Storage of the ledger.')
param ledger ledgerType

@description('Required. URL of the container with a folder for each attempt.')
param workspaceUri string

@description('Required. Days from the last write of a workspace file, run log or run artifact until Azure deletes the file. 0 means never.')
@minValue(0)
param workspaceRetentionDays int

@description('Required. Allowed references of jobs: `host`, `host/container` or `host/container/prefix`. LUCIUS_ALLOWED_REF_HOSTS in `tuning` overrides this list.')
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

  @description('Conditional. Endpoint of the scheduler. Required if the backend is `DurableTaskScheduler`.')
  endpoint: string?
}

@description('Optional. Host name of another Service Bus namespace for public events. Empty means the namespace of the bus.')
param eventsNamespace string = ''

@description('Optional. Functions that read replies. `Shared` means one function for all lanes. `Lanes` means one function for each lane.')
@allowed([
  'Shared'
  'Lanes'
])
param replies string = 'Shared'

@description('Optional. Endpoint of the App Configuration store. If empty, the packaged protocols are in effect.')
param appConfigurationEndpoint string = ''

@description('Optional. URI of the secret with callback keys. If empty, callbacks are disabled.')
param callbackKeysUri string = ''

@description('Optional. URI of the secret with webhook keys. If empty, webhooks are disabled.')
param webhookKeysUri string = ''

@description('Optional. URL of the key that signs heads and anchors. If empty, the app records neither heads nor anchors.')
param auditKeyUrl string = ''

@description('Optional. Blob endpoint of the account with anchors.')
param anchorsEndpoint string = ''

@description('Required. Name of the environment, which is part of the `source` of public events.')
param environmentName string

@description('Required. Public URL of the app.')
param publicUrl string

@description('Required. Accepted access tokens.')
param auth authType

@description('Optional. Settings of LUCIUS that differ from their defaults.')
param tuning tuningType = {}

@description('Optional. Share of the traces that the app sends to Application Insights, from 0 to 1. The app always sends requests, jobs, failed attempts, log records and metrics.')
@minLength(1)
@maxLength(5)
param traceRatio string = '0.1'

@export()
@description('Returns `true` if the text is a valid LUCIUS_TRACE_RATIO, from 0 to 1. Valid texts are `0`, `0.` with digits, `1`, and `1.` with zeros.')
func isShare(value string) bool =>
  !endsWith(value, '.') && empty(filter(
    range(0, length(value)),
    index =>
      !contains(
        index == 0 ? '01' : index == 1 ? '.' : startsWith(value, '1') ? '0' : '0123456789',
        substring(value, index, 1)
      )
  ))

@description('Required. Connection string of Application Insights.')
param applicationInsightsConnectionString string

@export()
@description('Accepted access tokens (RFC 9068).')
@sealed()
type authType = {
  @description('Required. `iss` of the tokens, exactly.')
  @minLength(8)
  issuer: string

  @description('Required. Accepted `aud` of the tokens, separated by commas.')
  @minLength(1)
  audience: string

  @description('Required. URL of the issuer\'s keys (JWKS).')
  @minLength(8)
  jwksUrl: string

  @description('Required. Claim with the caller\'s tenant, if neither `tenants` nor a role `tenant:NAME` names the tenant.')
  @minLength(1)
  tenantClaim: string

  @description('Required. LUCIUS tenants by claim and value. `{}` means no tenants.')
  tenants: tenantsType

  @description('Required. Client id of the dashboard. If empty, users paste a token.')
  dashboardClientId: string
}

@export()
@description('LUCIUS tenants by claim and value, for example `{ azp: { CLIENT_ID: \'contoso\' }, groups: { GROUP_ID: \'fabrikam\' } }`.')
type tenantsType = {
  @description('Optional. Values of the claim of this name, with the tenant of each value.')
  *: {
    @description('Optional. Tenant of the callers whose claim has this value.')
    *: string
  }
}

@export()
@description('Settings of LUCIUS by name (docs/reference/settings.md). An absent setting has its default.')
@sealed()
// generated: tuning
type tuningType = {
  @description('Optional. `feed`: LUCIUS writes public events to each tenant\'s feed. `topic`: LUCIUS also sends public events to the topic `lucius-events`. `off`: no public events.')
  LUCIUS_EVENTS: string?

  @description('Optional. Minimum seconds from a step\'s last write to a write of new `progress` alone, at least 5. A write that renews the lease includes `progress` at any time.')
  LUCIUS_PROGRESS_SECONDS: string?

  @description('Optional. Retention in days of public events in feeds, and of ended deliveries of webhooks. LUCIUS abandons older waiting deliveries.')
  LUCIUS_FEED_DAYS: string?

  @description('Optional. Retention in days, at least 32. Applies to signed heads, to log entries of quotas and deleted webhooks, and to closed incidents of breakers, services and rows. If LUCIUS_RETENTION_DAYS is unset, LUCIUS retains ended bulk operations for the same number of days.')
  LUCIUS_CHANGE_LOG_DAYS: string?

  @description('Optional. Maximum attempts of a step. Failed sends do not count.')
  LUCIUS_MAX_ATTEMPTS: string?

  @description('Optional. Maximum seconds from a directive to its ACK. LUCIUS waits longer while messages wait on the lane, or while Service Bus does not respond.')
  LUCIUS_ACK_TIMEOUT_SECONDS: string?

  @description('Optional. Seconds of the lease, from the ACK. A heartbeat renews the lease.')
  LUCIUS_STEP_RESULT_TIMEOUT_SECONDS: string?

  @description('Optional. Maximum seconds of an attempt, from its ACK. A heartbeat does not extend this time.')
  LUCIUS_ATTEMPT_MAX_SECONDS: string?

  @description('Optional. Maximum seconds of a job, from its creation or, if the job waited, from its admission. Time in PAUSED does not count.')
  LUCIUS_JOB_TOTAL_TIMEOUT_SECONDS: string?

  @description('Optional. Seconds to wait after each failed send to Service Bus, separated by commas. If the send after the last entry fails too, the job fails.')
  LUCIUS_DISPATCH_BACKOFF_SECONDS: string?

  @description('Optional. Seconds to wait after each ACK timeout, separated by commas. The last entry repeats.')
  LUCIUS_ACK_BACKOFF_SECONDS: string?

  @description('Optional. Seconds to wait after each failed execution, separated by commas. The last entry repeats.')
  LUCIUS_EXECUTION_BACKOFF_SECONDS: string?

  @description('Optional. Number of days after a job ended for which the same request returns that job.')
  LUCIUS_IDEMPOTENCY_TTL_DAYS: string?

  @description('Optional. Retention of ended jobs in days, at least LUCIUS_IDEMPOTENCY_TTL_DAYS. Then the audit bundle moves to the blob container `lucius-archive`, and the job stays readable. Default: unlimited.')
  LUCIUS_RETENTION_DAYS: string?

  @description('Optional. Maximum active jobs of a tenant. Limits of the tenant\'s own quota, or for every tenant, override this setting. Default: unlimited.')
  LUCIUS_MAX_INFLIGHT_PER_TENANT: string?

  @description('Optional. Response to a request while a limit of the settings is reached, or while its quota is held or throttled. `reject`: the request returns 429. `stage`: the request returns 202, and the job waits.')
  LUCIUS_OVERFLOW: string?

  @description('Optional. Maximum active jobs of all tenants together. Limits of the quota `platform` override this setting.')
  LUCIUS_MAX_INFLIGHT: string?

  @description('Optional. Maximum active jobs in mode BURST, of all tenants together. Limits of the quota `mode:BURST` override this setting.')
  LUCIUS_MAX_INFLIGHT_BURST: string?

  @description('Optional. NCRONTAB schedule of the sweeper, with seconds.')
  LUCIUS_SWEEP_SCHEDULE: string?

  @description('Optional. Number of sweepers, which are timer functions and share the tenants. Sizing: docs/explanation/scale.md.')
  LUCIUS_SWEEPERS: string?

  @description('Optional. Mode of requests without a mode, if App Configuration sets none: `DEFAULT` (older name: `SAFE`) or `BURST`.')
  LUCIUS_DEFAULT_MODE: string?

  @description('Optional. Minimum seconds between two reads of App Configuration.')
  LUCIUS_APPCONFIG_REFRESH_SECONDS: string?

  @description('Optional. Client of the Table service. `direct`: the app\'s own HTTP client. `sdk`: Microsoft\'s SDK, which needs more CPU.')
  LUCIUS_TABLE_TRANSPORT: string?

  @description('Optional. Retention in days of the daily exports of the tables, in the blob container `lucius-exports`. If unset, there are no exports.')
  LUCIUS_EXPORT_DAYS: string?

  @description('Optional. Blob endpoint of another storage account for the exports; https. Default: the account of LUCIUS_BLOB_ENDPOINT or LUCIUS_BLOB_CONNECTION.')
  LUCIUS_EXPORT_ENDPOINT: string?

  @description('Optional. Webhook hosts to allow in addition to public hosts at port 443: IP addresses, private hosts, other ports, or http. Format: `HOST` (port 443), `HOST:PORT` or `HOST:*`, separated by commas. `TENANT@` before a host restricts the host to one tenant. List only names whose DNS you control.')
  LUCIUS_WEBHOOK_HOSTS: string?

  @description('Optional. Claim with the source of the caller\'s jobs. The claim overrides the source in the job request. If this setting is unset, or the token has no such claim, the request names the source.')
  LUCIUS_AUTH_SOURCE_CLAIM: string?

  @description('Optional. Role over all tenants, in the claim `roles`. With the suffix `:read`, callers can read every tenant\'s objects. With `:operate`, callers can submit for every tenant and change every tenant\'s objects. Without a suffix the role allows both, in this release.')
  LUCIUS_AUTH_ALL_TENANTS_ROLE: string?

  @description('Optional. Scopes that the dashboard requests, separated by spaces. Default: `AUDIENCE/.default` with the first audience of LUCIUS_AUTH_AUDIENCE.')
  LUCIUS_DASHBOARD_SCOPE: string?

  @description('Optional. Allowed URI schemes of references, separated by commas. Default: `https,s3,abfss`, outside Azure also `http`.')
  LUCIUS_ALLOWED_REF_SCHEMES: string?

  @description('Optional. Allowed hosts of references: `host`, `host/container` or `host/container/prefix`, compared exactly except for case, separated by commas. `{tenant}` is the job\'s tenant. Add a port that differs from the scheme\'s default. Default: any host or, with the template, the tenant\'s folder in each container: `HOST/documents/{tenant}` and others.')
  LUCIUS_ALLOWED_REF_HOSTS: string?
}
// end

var topology = loadJsonContent('../topology.json')

// Settings of the runtime and its bindings.
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
  // The host sends all traces, because it drops the log records of each trace that it does not send.
  OTEL_TRACES_SAMPLER: 'microsoft.fixed_percentage'
  OTEL_TRACES_SAMPLER_ARG: '1'
  TASKHUB_NAME: durable.taskHubName
  // The app refuses bodies over 1 MiB with 413. The host refuses bodies over this limit with 500, before the app loads them.
  FUNCTIONS_REQUEST_BODY_SIZE_LIMIT: '2097152'
}

// The backend itself is set in the package's host.json, because the scale controller reads only that file.
var schedulerSettings = {
  DURABLE_TASK_SCHEDULER_CONNECTION_STRING: 'Endpoint=${durable.?endpoint ?? ''};Authentication=ManagedIdentity;ClientID=${identity.clientId}'
}

// Settings of the app's own code. AZURE_CLIENT_ID selects the identity of the Azure SDKs.
var appSettings = {
  AZURE_CLIENT_ID: identity.clientId
  LUCIUS_SERVICEBUS_LANES: string(topology.lanes)
  LUCIUS_SERVICEBUS_REPLY_PREFIX: topology.replies.prefix
  LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION: topology.replies.subscription
  LUCIUS_SERVICEBUS_REPLY_QUEUE: topology.replies.queue
  LUCIUS_REPLIES: toLower(replies)
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
  LUCIUS_TRACE_RATIO: traceRatio
  LUCIUS_ENVIRONMENT: environmentName
  LUCIUS_AUTH_MODE: 'jwt'
  LUCIUS_AUTH_ISSUER: auth.issuer
  LUCIUS_AUTH_AUDIENCE: auth.audience
  LUCIUS_AUTH_JWKS_URL: auth.jwksUrl
  LUCIUS_AUTH_TENANT_CLAIM: auth.tenantClaim
  LUCIUS_AUTH_TENANTS: string(auth.tenants)
  LUCIUS_DASHBOARD_CLIENT_ID: auth.dashboardClientId
}

// Flex Consumption has these values in functionAppConfig and refuses them as settings.
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
    empty(auditKeyUrl) ? {} : { LUCIUS_AUDIT_KEY: auditKeyUrl, LUCIUS_AUDIT_BLOB_ENDPOINT: anchorsEndpoint },
    hosting == 'FlexConsumption' ? {} : premiumSettings,
    tuning
  )
}
