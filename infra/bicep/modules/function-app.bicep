metadata name = 'Function app'
metadata description = 'The plan and site of the LUCIUS app on Flex Consumption, Elastic Premium or App Service. The app\'s settings are in app-settings.bicep.'

import { identityType, privateAccessType, tagsType } from 'shapes.bicep'

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

@description('Optional. Hosting plan of the app. FlexConsumption scales each group of functions separately, to zero or more instances. ElasticPremium keeps instances warm. AppService has a fixed number of instances.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
  'AppService'
])
param hosting string = 'FlexConsumption'

@description('Optional. Size, scale limits, warm instances, zone redundancy and update strategy of the app.')
param scale scaleType = {}

@description('Optional. Number of sweepers (LUCIUS_SWEEPERS). Default: 1.')
@minValue(1)
param sweepers int = 1

@description('Optional. `true` if LUCIUS_EVENTS is not `off`. Instances can then be always ready for the function that writes public events.')
param events bool = true

@description('Optional. `true` if webhooks are enabled. If `events` is also `true`, instances can be always ready for the function that sends webhooks.')
param webhooks bool = false

@description('Optional. Functions that read replies. `Shared` means one function for all lanes. `Lanes` means one function for each lane.')
@allowed([
  'Shared'
  'Lanes'
])
param replies string = 'Shared'

@description('Required. The app\'s identity.')
param identity identityType

@description('Required. URL of the container with the deployed packages.')
param packageUri string

@description('Optional. Public URL of the app. Empty means the app\'s default host name.')
param publicUrl string = ''

@description('Optional. Resource id of the subnet that the app integrates into. Empty without network isolation.')
param appSubnetResourceId string = ''

@description('Optional. Settings of the private endpoint. If absent, the public endpoint accepts callers with a token.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

@export()
@description('Size, scale limits, warm instances, zone redundancy and update strategy of the app. On Flex Consumption, a function takes up to two minutes to start if no instance is always ready.')
@sealed()
type scaleType = {
  @description('Optional. Flex Consumption only. Memory of an instance in MB. Default: 2048.')
  instanceMemoryMB: (512 | 2048 | 4096)?

  @description('Optional. Flex Consumption and Elastic Premium only. Maximum instances, on Elastic Premium at most 100. Default: 100.')
  @minValue(1)
  @maxValue(1000)
  maximumInstances: int?

  @description('Optional. Flex Consumption only. Maximum concurrent requests of an instance. Default: 100, as in host.json.')
  @minValue(1)
  @maxValue(1000)
  httpConcurrency: int?

  @description('Optional. Flex Consumption only. Instances always ready for HTTP. Default: 0.')
  @minValue(0)
  alwaysReadyHttp: int?

  @description('Optional. Flex Consumption only. Instances always ready for orchestrations and activities. Default: 1, because the start-up time from zero instances is not measured yet.')
  @minValue(0)
  alwaysReadyDurable: int?

  @description('Optional. Flex Consumption only. Instances always ready for each reply function: 1 function with `Shared`, 16 functions with `Lanes`. Default: 0.')
  @minValue(0)
  alwaysReadyReplies: int?

  @description('Optional. Flex Consumption only. Instances always ready for the function that admits waiting jobs at the time when a quota allows more jobs. The sweeper also admits waiting jobs every minute. Default: 0.')
  @minValue(0)
  alwaysReadyAdmission: int?

  @description('Optional. Flex Consumption only. Instances always ready for the function that writes public events, if LUCIUS_EVENTS is not off. Default: 0.')
  @minValue(0)
  alwaysReadyTell: int?

  @description('Optional. Flex Consumption only. Instances always ready for the function that sends webhooks, if webhooks are enabled and LUCIUS_EVENTS is not off. Default: 0.')
  @minValue(0)
  alwaysReadyDeliver: int?

  @description('Optional. Elastic Premium only. Size of an instance. Default: EP1.')
  premiumSize: ('EP1' | 'EP2' | 'EP3')?

  @description('Optional. Elastic Premium only. Minimum warm instances. Default: 1.')
  @minValue(1)
  @maxValue(20)
  premiumMinimumInstances: int?

  @description('Optional. App Service only. Size of an instance. Default: P0v3.')
  appServiceSize: ('B1' | 'P0v3' | 'P1v3')?

  @description('Optional. App Service only. Number of instances. Default: 1.')
  @minValue(1)
  @maxValue(30)
  appServiceInstances: int?

  @description('Optional. `true` spreads instances of the app, and of container apps in an isolated network, over availability zones. Flex Consumption then bills at least two always ready instances of each scale group. The groups are HTTP, orchestrations, each reply function, admission, each sweeper, the writer of public events, the hourly deletion of expired rows, and webhooks. Default: false.')
  zoneRedundant: bool?

  @description('Optional. Flex Consumption only. Update strategy of running instances. `Recreate` (default) ends running executions. `RollingUpdate` (preview) lets running executions finish. A change is in effect from the next update.')
  updateStrategy: ('Recreate' | 'RollingUpdate')?
}

var topology = loadJsonContent('../topology.json')
var isFlex = hosting == 'FlexConsumption'
var isPremium = hosting == 'ElasticPremium'
var zoneRedundant = scale.?zoneRedundant ?? false
var maximumInstances = scale.?maximumInstances ?? 100

// With zone redundancy, Flex Consumption keeps two instances of each group ready and refuses a value of one.
var leastReady = zoneRedundant ? 2 : 0
// A scale group has a fixed name; a function has its name with a prefix (https://aka.ms/flexconsumption/alwaysready).
var replyNames = replies == 'Shared' ? ['replies'] : map(range(0, topology.lanes), lane => 'reply_p${lane}')
var replyFunctions = map(replyNames, name => {
  name: 'function:${name}'
  instanceCount: max(scale.?alwaysReadyReplies ?? 0, leastReady)
})
var moreSweepers = map(range(1, sweepers - 1), number => {
  name: 'function:sweep_${number}'
  instanceCount: leastReady
})
var alwaysReady = filter(
  concat(
    [
      { name: 'http', instanceCount: max(scale.?alwaysReadyHttp ?? 0, leastReady) }
      { name: 'durable', instanceCount: max(scale.?alwaysReadyDurable ?? 1, leastReady) }
      { name: 'function:sweep', instanceCount: leastReady }
      { name: 'function:admission', instanceCount: max(scale.?alwaysReadyAdmission ?? 0, leastReady) }
      { name: 'function:tell', instanceCount: events ? max(scale.?alwaysReadyTell ?? 0, leastReady) : 0 }
      { name: 'function:prune', instanceCount: leastReady }
      {
        name: 'function:deliver'
        instanceCount: events && webhooks ? max(scale.?alwaysReadyDeliver ?? 0, leastReady) : 0
      }
    ],
    moreSweepers,
    replyFunctions
  ),
  group => group.instanceCount > 0
)

resource plan 'Microsoft.Web/serverfarms@2025-03-01' = {
  name: planName
  location: location
  tags: tags
  kind: isFlex ? 'functionapp' : isPremium ? 'elastic' : 'linux'
  sku: {
    name: isFlex ? 'FC1' : isPremium ? (scale.?premiumSize ?? 'EP1') : (scale.?appServiceSize ?? 'P0v3')
    tier: isFlex ? 'FlexConsumption' : isPremium ? 'ElasticPremium' : null
    capacity: isFlex || isPremium ? null : (scale.?appServiceInstances ?? 1)
  }
  properties: {
    reserved: true
    zoneRedundant: zoneRedundant
    maximumElasticWorkerCount: isPremium ? min(maximumInstances, 100) : null
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
    // https://learn.microsoft.com/azure/azure-functions/security-concepts#disable-administrative-endpoints; the type lacks it
    #disable-next-line BCP037
    functionsRuntimeAdminIsolationEnabled: true
    publicNetworkAccess: privateAccess == null ? 'Enabled' : 'Disabled'
    virtualNetworkSubnetId: empty(appSubnetResourceId) ? null : appSubnetResourceId
    outboundVnetRouting: empty(appSubnetResourceId) || isFlex ? null : { allTraffic: true }
    // the type lacks siteUpdateStrategy, and the compiler reports it here, at the condition
    #disable-next-line BCP037
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
          // https://learn.microsoft.com/azure/azure-functions/flex-consumption-site-updates
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
    // Flex Consumption refuses properties of Premium, even null (error 51021); the policy below disables FTP there
    siteConfig: {
      http20Enabled: true
      minTlsVersion: '1.2'
      scmMinTlsVersion: '1.2'
      ...(isFlex
        ? {}
        : {
            ftpsState: 'Disabled'
            linuxFxVersion: 'PYTHON|3.12'
            healthCheckPath: '/v1/health/live'
          })
      // an App Service plan stops an app without requests unless it is always on; Elastic Premium refuses the property
      ...(isPremium
        ? {
            minimumElasticInstanceCount: scale.?premiumMinimumInstances ?? 1
            functionsRuntimeScaleMonitoringEnabled: !empty(appSubnetResourceId)
          }
        : isFlex ? {} : { alwaysOn: true })
    }
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

@description('URL of the API.')
output url string = empty(publicUrl) ? 'https://${app.properties.defaultHostName}' : publicUrl
