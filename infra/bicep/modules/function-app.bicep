metadata name = 'Function app'
metadata description = 'The LUCIUS app on Flex Consumption or Elastic Premium: plan, site and every app setting.'

import { privateAccessType, tagsType } from 'shapes.bicep'

@description('Required. Name of the app, unique in Azure.')
@minLength(2)
@maxLength(60)
param name string

@description('Required. Name of the plan.')
param planName string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. What runs the app. FlexConsumption scales each reply lane by itself and to nothing; ElasticPremium keeps whole instances warm.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
])
param hosting string = 'FlexConsumption'

@description('Optional. Size, bounds and warm instances of the app.')
param scale scaleType = {}

@description('Required. The app\'s identity.')
param identity identityType

@description('Required. Storage of the Functions runtime: endpoints end in a slash.')
param runtimeStorage {
  @description('Required. Blob endpoint.')
  blobEndpoint: string

  @description('Required. Queue endpoint.')
  queueEndpoint: string

  @description('Required. Table endpoint.')
  tableEndpoint: string

  @description('Required. Container that deployed packages stand in.')
  deploymentContainer: string
}

@description('Required. Where the ledger stands.')
param ledger {
  @description('Required. Table endpoint of the ledger\'s account.')
  tableEndpoint: string

  @description('Required. Blob endpoint of the ledger\'s account, for long strings and archives.')
  blobEndpoint: string

  @description('Required. Table of jobs, steps and events.')
  ledgerTable: string

  @description('Required. Table of claims, active jobs and lists.')
  indexTable: string

  @description('Required. Table of tenants.')
  tenantsTable: string

  @description('Required. Table of messages that no job could take.')
  rejectedTable: string
}

@description('Required. Where attempts get their folders: a container\'s address.')
param workspaceUri string

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

@description('Optional. Address of the App Configuration store. Empty: the packaged protocols rule.')
param appConfigurationEndpoint string = ''

@description('Optional. Address of the secret with callback keys. Empty: no callbacks.')
param callbackKeysUri string = ''

@description('Optional. The app\'s own address as platform services see it. Empty: its default host name.')
param publicUrl string = ''

@description('Required. Whose tokens are taken.')
param auth authType

@description('Optional. Settings of LUCIUS that differ from their defaults.')
param tuning tuningType = {}

@description('Required. Where telemetry goes.')
param applicationInsightsConnectionString string

@description('Optional. Resource id of the subnet that the app integrates into. Empty: none.')
param appSubnetResourceId string = ''

@description('Optional. How the private endpoint is made. Absent: the API is open to callers with a token.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

@export()
@description('Size, bounds and warm instances.')
@sealed()
type scaleType = {
  @description('Optional. Flex Consumption: memory of an instance. Default: 2048.')
  instanceMemoryMB: (512 | 2048 | 4096)?

  @description('Optional. Most instances. Default: 100.')
  @minValue(1)
  @maxValue(1000)
  maximumInstances: int?

  @description('Optional. Flex Consumption: requests that one instance takes at once. Default: 100, as in host.json.')
  @minValue(1)
  @maxValue(1000)
  httpConcurrency: int?

  @description('Optional. Flex Consumption: instances always ready for HTTP. Default: 0.')
  @minValue(0)
  alwaysReadyHttp: int?

  @description('Optional. Flex Consumption: instances always ready for orchestrations and activities. Default: 1, since it is not known yet how soon the scale controller wakes them from nothing. 0 where that was seen to work.')
  @minValue(0)
  alwaysReadyDurable: int?

  @description('Optional. Flex Consumption: instances always ready for EACH of the reply functions, one a lane. A sleeping lane takes up to two minutes to wake. Default: 0.')
  @minValue(0)
  alwaysReadyReplies: int?

  @description('Optional. Elastic Premium: size of an instance. Default: EP1.')
  premiumSize: ('EP1' | 'EP2' | 'EP3')?

  @description('Optional. Elastic Premium: instances always warm. Default: 1.')
  @minValue(1)
  @maxValue(20)
  premiumMinimumInstances: int?

  @description('Optional. Whether instances are spread over availability zones. On Flex Consumption two instances of every scale group are then always ready, and paid for: of HTTP, of orchestrations, of each reply function and of the sweeper. Default: false.')
  zoneRedundant: bool?

  @description('Optional. Flex Consumption: how running instances are replaced. Recreate ends them and what runs on them; RollingUpdate (in preview) lets it end. It counts from the next update on. Default: Recreate.')
  updateStrategy: ('Recreate' | 'RollingUpdate')?
}

@export()
@description('An identity by its three names.')
@sealed()
type identityType = {
  @description('Required. Resource id.')
  resourceId: string

  @description('Required. Client id.')
  clientId: string
}

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

  @description('Required. Claim that names the caller\'s LUCIUS tenant.')
  @minLength(1)
  tenantClaim: string
}

@export()
@description('Settings of LUCIUS, by their names (docs/settings.md). What is absent has its default.')
@sealed()
// generated: tuning
type tuningType = {
  @description('Optional. Attempts a step may have, over all causes except publishing.')
  LUCIUS_MAX_ATTEMPTS: string?

  @description('Optional. Seconds from the directive to its ACK.')
  LUCIUS_ACK_TIMEOUT_SECONDS: string?

  @description('Optional. Seconds of the lease, from the ACK on; a heartbeat restarts it.')
  LUCIUS_STEP_RESULT_TIMEOUT_SECONDS: string?

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

  @description('Optional. Active jobs a tenant may have; exact.')
  LUCIUS_MAX_INFLIGHT_PER_TENANT: string?

  @description('Optional. Active jobs of all tenants; a guard, counted by the sweeper.')
  LUCIUS_MAX_INFLIGHT: string?

  @description('Optional. Active jobs in mode BURST; a guard, counted by the sweeper.')
  LUCIUS_MAX_INFLIGHT_BURST: string?

  @description('Optional. NCRONTAB schedule of the sweeper, with seconds.')
  LUCIUS_SWEEP_SCHEDULE: string?

  @description('Optional. Mode of requests that name none, where App Configuration names none: `DEFAULT` or `BURST`.')
  LUCIUS_DEFAULT_MODE: string?

  @description('Optional. Seconds between two reads of App Configuration.')
  LUCIUS_APPCONFIG_REFRESH_SECONDS: string?

  @description('Optional. Value of `roles` that lets an operator see every tenant.')
  LUCIUS_AUTH_ALL_TENANTS_ROLE: string?

  @description('Optional. Schemes of references, with commas between; default: `https,s3,abfss`, and `http` outside Azure.')
  LUCIUS_ALLOWED_REF_SCHEMES: string?

  @description('Optional. Hosts of references, `host/container` or `host/container/prefix`, matched exactly, with commas between; `{tenant}` stands for the tenant, a port other than the scheme\'s own belongs to the host; default: any.')
  LUCIUS_ALLOWED_REF_HOSTS: string?
}
// end

var topology = loadJsonContent('../topology.json')
var isFlex = hosting == 'FlexConsumption'
var packageUri = '${runtimeStorage.blobEndpoint}${runtimeStorage.deploymentContainer}'
var zoneRedundant = scale.?zoneRedundant ?? false
var maximumInstances = scale.?maximumInstances ?? 100

// Over zones, Flex keeps two of each group ready whatever is asked for, and refuses one: so two are asked for.
var leastReady = zoneRedundant ? 2 : 0
// Groups are named as they are, functions with a prefix (https://aka.ms/flexconsumption/alwaysready).
var replyFunctions = map(range(0, topology.lanes), lane => {
  name: 'function:reply_p${lane}'
  instanceCount: max(scale.?alwaysReadyReplies ?? 0, leastReady)
})
var alwaysReady = filter(
  concat(
    [
      { name: 'http', instanceCount: max(scale.?alwaysReadyHttp ?? 0, leastReady) }
      { name: 'durable', instanceCount: max(scale.?alwaysReadyDurable ?? 1, leastReady) }
      { name: 'function:sweep', instanceCount: leastReady }
    ],
    replyFunctions
  ),
  group => group.instanceCount > 0
)

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
  LUCIUS_AUTH_MODE: 'jwt'
  LUCIUS_AUTH_ISSUER: auth.issuer
  LUCIUS_AUTH_AUDIENCE: auth.audience
  LUCIUS_AUTH_JWKS_URL: auth.jwksUrl
  LUCIUS_AUTH_TENANT_CLAIM: auth.tenantClaim
}
var configurationSettings = {
  LUCIUS_APPCONFIG_ENDPOINT: appConfigurationEndpoint
}
var callbackSettings = {
  LUCIUS_PUBLIC_URL: empty(publicUrl) ? 'https://${app.properties.defaultHostName}' : publicUrl
  LUCIUS_CALLBACK_KEYS: '@Microsoft.KeyVault(SecretUri=${callbackKeysUri})'
}

// Flex Consumption knows these by functionAppConfig and refuses them as settings.
var premiumSettings = {
  FUNCTIONS_EXTENSION_VERSION: '~4'
  FUNCTIONS_WORKER_RUNTIME: 'python'
  WEBSITE_RUN_FROM_PACKAGE: '${packageUri}/released-package.zip'
  WEBSITE_RUN_FROM_PACKAGE_BLOB_MI_RESOURCE_ID: identity.resourceId
}

resource plan 'Microsoft.Web/serverfarms@2025-03-01' = {
  name: planName
  location: location
  tags: tags
  kind: isFlex ? 'functionapp' : 'elastic'
  sku: {
    name: isFlex ? 'FC1' : (scale.?premiumSize ?? 'EP1')
    tier: isFlex ? 'FlexConsumption' : 'ElasticPremium'
  }
  properties: {
    reserved: true
    zoneRedundant: zoneRedundant
    maximumElasticWorkerCount: isFlex ? null : min(maximumInstances, 100)
  }
}

resource app 'Microsoft.Web/sites@2025-03-01' = {
  name: name
  location: location
  tags: union(tags, { 'azd-service-name': 'lucius' })
  kind: 'functionapp,linux'
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.resourceId}': {}
    }
  }
  properties: {
    serverFarmId: plan.id
    reserved: true
    httpsOnly: true
    clientAffinityEnabled: false
    endToEndEncryptionEnabled: isFlex ? null : true
    keyVaultReferenceIdentity: identity.resourceId
    publicNetworkAccess: privateAccess == null ? 'Enabled' : 'Disabled'
    virtualNetworkSubnetId: empty(appSubnetResourceId) ? null : appSubnetResourceId
    outboundVnetRouting: empty(appSubnetResourceId) || isFlex ? null : { allTraffic: true }
    functionAppConfig: isFlex
      ? {
          deployment: {
            storage: {
              type: 'blobContainer'
              value: packageUri
              authentication: {
                type: 'UserAssignedIdentity'
                userAssignedIdentityResourceId: identity.resourceId
              }
            }
          }
          runtime: {
            name: 'python'
            version: '3.12'
          }
          // https://learn.microsoft.com/azure/azure-functions/flex-consumption-site-updates; the type does not know it yet
          #disable-next-line BCP037
          siteUpdateStrategy: {
            type: scale.?updateStrategy ?? 'Recreate'
          }
          scaleAndConcurrency: {
            instanceMemoryMB: scale.?instanceMemoryMB ?? 2048
            maximumInstanceCount: maximumInstances
            alwaysReady: alwaysReady
            triggers: {
              http: {
                perInstanceConcurrency: scale.?httpConcurrency ?? 100
              }
            }
          }
        }
      : null
    // Flex Consumption refuses what is only Premium's, as null too (error 51021); its FTP is closed by the policy below
    siteConfig: union(
      {
        http20Enabled: true
        minTlsVersion: '1.2'
        scmMinTlsVersion: '1.2'
      },
      isFlex
        ? {}
        : {
            ftpsState: 'Disabled'
            linuxFxVersion: 'PYTHON|3.12'
            minimumElasticInstanceCount: scale.?premiumMinimumInstances ?? 1
            functionsRuntimeScaleMonitoringEnabled: !empty(appSubnetResourceId)
            healthCheckPath: '/v1/health/live'
          }
    )
  }

  resource ftpPolicy 'basicPublishingCredentialsPolicies' = {
    name: 'ftp'
    properties: {
      allow: false
    }
  }

  resource scmPolicy 'basicPublishingCredentialsPolicies' = {
    name: 'scm'
    properties: {
      allow: false
    }
  }
}

resource settings 'Microsoft.Web/sites/config@2025-03-01' = {
  parent: app
  name: 'appsettings'
  properties: union(
    hostSettings,
    durable.backend == 'DurableTaskScheduler' ? schedulerSettings : {},
    appSettings,
    empty(appConfigurationEndpoint) ? {} : configurationSettings,
    empty(callbackKeysUri) ? {} : callbackSettings,
    isFlex ? {} : premiumSettings,
    tuning
  )
}

module privateEndpoint 'private-endpoint.bicep' = if (privateAccess != null) {
  name: 'pep-${name}'
  params: {
    name: 'pep-${name}'
    location: location
    tags: tags
    subnetResourceId: privateAccess!.subnetResourceId
    targetResourceId: app.id
    groupId: 'sites'
    zoneResourceIds: [
      privateAccess!.zones.sites
    ]
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: app
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      {
        category: 'FunctionAppLogs'
        enabled: true
      }
    ]
    metrics: [
      {
        category: 'AllMetrics'
        enabled: true
      }
    ]
  }
}

@description('Resource id of the app.')
output resourceId string = app.id

@description('Name of the app.')
output name string = app.name

@description('Address of the API.')
output url string = empty(publicUrl) ? 'https://${app.properties.defaultHostName}' : publicUrl
