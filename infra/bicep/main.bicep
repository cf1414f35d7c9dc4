metadata name = 'LUCIUS'
metadata description = 'A complete deployment in one resource group, with monitoring and without account keys. A parameter makes the network private. The scope of the deployment is the subscription.'

targetScope = 'subscription'

import { thresholdsType } from 'modules/alerts.bicep'
import { tenantModeType } from 'modules/app-configuration-keys.bicep'
import { isShare, tenantsType, tuningType } from 'modules/app-settings.bicep'
import { scaleType } from 'modules/function-app.bicep'
import { ownNetworkType } from 'modules/shapes.bicep'
import { platformServiceType } from 'services.bicep'

// ---------------------------------------------------------------- region and names

@description('Required. Name of the environment, for example `dev`. The name is part of most resource names.')
@minLength(1)
@maxLength(20)
param environmentName string

@description('Required. Region with Flex Consumption. If `durableBackend` is DurableTaskScheduler, the preprovision hook checks that the region also offers the scheduler.')
@allowed([
  'australiaeast'
  'australiasoutheast'
  'brazilsouth'
  'canadacentral'
  'centralindia'
  'centralus'
  'eastasia'
  'eastus'
  'eastus2'
  'francecentral'
  'germanywestcentral'
  'italynorth'
  'japaneast'
  'koreacentral'
  'northcentralus'
  'northeurope'
  'norwayeast'
  'southafricanorth'
  'southcentralus'
  'southeastasia'
  'southindia'
  'spaincentral'
  'swedencentral'
  'uaenorth'
  'uksouth'
  'ukwest'
  'westcentralus'
  'westeurope'
  'westus'
  'westus2'
  'westus3'
])
@metadata({
  azd: {
    type: 'location'
  }
})
param location string

@description('Optional. Name of the resource group. Empty means `rg-lucius-` and the environment\'s name.')
@maxLength(90)
param resourceGroupName string = ''

@description('Optional. `true` if the resource group `resourceGroupName` exists already. The template then neither creates nor tags the group.')
param existingResourceGroup bool = false

@description('Optional. Tags of each resource, in addition to those of azd and cost reports.')
param tags {
  @description('Optional. Value of the tag with this name.')
  *: string
} = {}

// ---------------------------------------------------------------- the app

@description('Optional. Hosting plan of the app. FlexConsumption scales each group of functions separately, to zero or more instances. ElasticPremium keeps instances warm. AppService has a fixed number of instances.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
  'AppService'
])
param hosting string = 'FlexConsumption'

@description('Optional. Size, scale limits, warm instances, zone redundancy and update strategy of the app.')
param scale scaleType = {}

@description('Optional. Backend of Durable Functions, as in the host.json of the deployed package (scripts/package.py). A change of the backend ends all orchestrations. The sweeper then restarts the jobs from the ledger.')
@allowed([
  'DurableTaskScheduler'
  'AzureStorage'
])
param durableBackend string = 'DurableTaskScheduler'

@description('Optional. Tier of the Durable Task Scheduler. Azure bills Consumption per action and Dedicated per unit.')
@allowed([
  'Consumption'
  'Dedicated'
])
param schedulerSku string = 'Consumption'

@description('Optional. Units of a Dedicated scheduler. Three units make the scheduler zone-redundant.')
@minValue(1)
@maxValue(3)
param schedulerCapacity int = 1

@description('Optional. Settings of LUCIUS that differ from their defaults.')
param tuning tuningType = {}

@description('Optional. Public URL of the app. Empty means the app\'s default host name.')
param publicUrl string = ''

@description('Optional. `true` enables callbacks. The template creates a key vault, and the azd hooks create the callback keys in the vault (docs/guides/secrets.md).')
param enableCallbacks bool = false

@description('Optional. `true` enables webhooks. The template creates a key vault, and the azd hooks create the webhook keys in the vault. Callbacks and webhooks share one key vault.')
param enableWebhooks bool = false

@description('Optional. `true` creates a key vault even if callbacks, webhooks and signed heads are off.')
param keyVault bool = false

@description('Optional. Kinds of keys that are in the key vault, separated by spaces, for example `callback webhook`. The hooks set this parameter. The app gets only the settings of these kinds.')
param vaultKeys string = ''

@description('Optional. `true` makes LUCIUS record and sign heads of histories and a daily anchor (docs/guides/audit.md). The template then creates a key vault and a storage account for anchors.')
param signHeads bool = false

@description('Optional. `true` locks the policy that keeps anchors for 400 days. A locked policy can never be unlocked. The account of the anchors cannot be deleted while it contains an anchor younger than 400 days.')
param lockAnchors bool = false

// ---------------------------------------------------------------- accepted tokens

@description('Required. `aud` of callers\' tokens, which is the client id of this API\'s app registration.')
@minLength(1)
param authAudience string

@description('Optional. `iss` of callers\' tokens. Empty means this Entra tenant with tokens of version 2.')
param authIssuer string = ''

@description('Optional. URL of the issuer\'s keys (JWKS). Empty means the keys of this Entra tenant.')
param authJwksUrl string = ''

@description('Optional. Claim with the caller\'s tenant, if neither `authTenants` nor a role `tenant:NAME` names the tenant. `azp` is the client id of the calling application. With `azp`, the app refuses public clients whose tenant neither `authTenants` nor a role names.')
@minLength(1)
param authTenantClaim string = 'azp'

@description('Optional. LUCIUS tenants by claim and value. Any claim is possible, for example `azp` (application id) or `groups` (group id).')
param authTenants tenantsType = {}

@description('Optional. Client id of the dashboard, registered at the issuer for sign-in. If empty, users paste a token.')
param dashboardClientId string = ''

// ---------------------------------------------------------------- bus, storage, protocols

@description('Optional. Tier of Service Bus. Network isolation always uses Premium.')
@allowed([
  'Standard'
  'Premium'
])
param serviceBusSku string = 'Standard'

@description('Optional. Messaging units of the Premium tier.')
@allowed([
  1
  2
  4
  8
  16
])
param serviceBusCapacity int = 1

@description('Optional. Host name of another Service Bus namespace for public events (docs/guides/optional-features.md). Empty means the namespace of this template.')
param eventsNamespace string = ''

@description('Optional. Functions that read replies (docs/explanation/scale.md). `Shared` forwards all reply topics to one queue, which one function reads. `Lanes` has one function for each of the 16 topics. Default: `Shared` on Flex Consumption, `Lanes` on Elastic Premium and App Service.')
@allowed([
  'Shared'
  'Lanes'
])
param replies string = hosting == 'FlexConsumption' ? 'Shared' : 'Lanes'

@description('Optional. `true` scales each reply function by its number of replies, and allows dispatch limits with `max_active`. The app then gets the role Azure Service Bus Data Owner, with which the app can delete topics. If `false`, Azure adds one instance at a time for a reply function.')
param targetBasedScaling bool = false

@description('Optional. Redundancy of all storage accounts.')
@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_GZRS'
])
param storageSku string = 'Standard_LRS'

@description('Optional. Days from the last write of a workspace file, run log or run artifact until Azure deletes the file. 0 means never.')
@minValue(0)
@maxValue(36500)
param workspaceRetentionDays int = 30

@description('Optional. Retention of deleted blobs and containers in days (soft delete).')
@minValue(1)
@maxValue(365)
param softDeleteDays int = 7

@description('Optional. `true` creates a lock that prevents the deletion of the ledger\'s storage account. The deploying identity then needs the right Microsoft.Authorization/locks/write (Owner or User Access Administrator).')
param lockLedger bool = false

@description('Optional. `true` creates an App Configuration store for protocols and modes. If `false`, the packaged protocols are in effect.')
param appConfiguration bool = true

@description('Optional. Tier of App Configuration. With `networkIsolation`, `developer` becomes `standard`.')
@allowed([
  'developer'
  'standard'
  'premium'
])
param appConfigurationSku string = 'standard'

@description('Optional. `true` makes each deployment write the protocols of this repository to the store. The deploying identity must then be the operator, or have the role App Configuration Data Owner. With network isolation, an operator must write the protocols (docs/guides/isolated.md).')
param seedProtocols bool = true

@description('Optional. Default mode of job requests. The deployment writes the mode to the store together with the protocols (`seedProtocols`).')
@allowed([
  'DEFAULT'
  'BURST'
])
param defaultMode string = 'DEFAULT'

@description('Optional. Default modes of job requests, by tenant. The deployment writes the modes to the store together with the protocols (`seedProtocols`).')
param tenantModes tenantModeType[] = []

// ---------------------------------------------------------------- platform services and users

@description('Optional. Platform services that get roles on Service Bus and storage. The template creates an identity for each service without `principalId`. Default: all services of topology.json.')
param platformServices platformServiceType[]?

@description('Optional. `true` runs each service of `platformServices` in a container app, if `containers.json` has the service and the service has no `principalId`.')
param containerApps bool = true

@description('Optional. Tag of the images of platform services, which `infra/hooks/build_images.sh` builds. If empty, the template creates no container app.')
param serviceImageTag string = ''

@description('Optional. Resource id of an existing registry for the images. If empty, and `containerApps` selects a service, the template creates a registry, even if `serviceImageTag` is empty.')
param registryResourceId string = ''

@description('Optional. Object id of the operator, who can write the protocols and the keys of callbacks and webhooks. If empty, the identity that runs this deployment can write the protocols, and no identity gets the role to write the keys.')
param operatorPrincipalId string = ''

@description('Optional. Type of the identity `operatorPrincipalId` or, if that is empty, of the identity that runs this deployment.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param operatorPrincipalType string = 'User'

@description('Optional. Object id of the identity that runs the smoke test and can write to the container `smoke`. Empty means the operator or, if `operatorPrincipalId` is also empty, the identity that runs this deployment.')
param smokePrincipalId string = ''

@description('Optional. Type of the identity `smokePrincipalId`.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param smokePrincipalType string = 'ServicePrincipal'

@description('Optional. `true` lets the identity of the smoke test also act as each platform service and upload documents. A laptop that runs the reference services needs these rights.')
param operatorRunsServices bool = false

// ---------------------------------------------------------------- network and observability

@description('Optional. `true` creates private endpoints in a virtual network for the app and its Azure services, and turns off the public access to these resources. The registry, queries of logs and, with `workspaceResourceId`, telemetry stay public, for identities with a role. Service Bus is then Premium.')
param networkIsolation bool = false

@description('Optional. Address space of a new virtual network, a /22 or larger.')
param addressPrefix string = '10.40.0.0/22'

@description('Optional. An existing virtual network for network isolation. If absent, the template creates a network.')
param ownNetwork ownNetworkType?

@description('Optional. Resource id of the resource group that has the private DNS zones of private endpoints. If empty, the template creates zones. `none` means that your own policy writes the records.')
param privateDnsZones string = ''

@description('Optional. Resource id of an existing Log Analytics workspace in the same region. If empty, the template creates a workspace.')
param workspaceResourceId string = ''

@description('Optional. Retention of logs in days, in a new workspace.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('Optional. Maximum log ingestion per day in GB, in a new workspace. -1 means no limit.')
@minValue(-1)
param logDailyQuotaGb int = -1

@description('Optional. Share of the traces that the app sends to Application Insights, from 0 to 1. The app always sends requests, jobs, failed attempts, log records and metrics.')
@minLength(1)
@maxLength(5)
param traceRatio string = '0.1'

@description('Optional. Logs of storage requests. `Deletes` logs deletions only. `All` also logs reads and writes, and costs more than the requests.')
@allowed([
  'Deletes'
  'All'
])
param storageRequestLogs string = 'Deletes'

@description('Optional. `true` creates alert rules.')
param alerts bool = true

@description('Optional. Thresholds of the alert rules.')
param alertThresholds thresholdsType = {}

@description('Optional. Email addresses that receive alerts and budget notifications.')
param alertEmails string[] = []

@description('Optional. Resource ids of existing action groups that also receive alerts.')
param actionGroupIds string[] = []

@description('Optional. Monthly budget in the billing currency. 0 means no budget. A budget above 0 requires alertEmails and monthlyBudgetStart.')
@minValue(0)
param monthlyBudget int = 0

@description('Optional. First day of the month in which the budget is created, for example 2026-11-01. Azure refuses to change this date.')
param monthlyBudgetStart string = ''

var topology = loadJsonContent('topology.json')
// a variable, because the default of a parameter can refer to parameters only
var allPlatformServices platformServiceType[] = platformServices ?? map(topology.services, service => {
  name: service.name
})
var unknownServices = filter(
  map(allPlatformServices, service => service.name),
  name => !contains(map(topology.services, service => service.name), name)
)
var token = uniqueString(subscription().id, environmentName, location)
var suffix = 'lucius-${environmentName}-${token}'
var runsApps = containerApps && !empty(filter(allPlatformServices, service => empty(service.?principalId ?? '')))
// Contradictory parameters fail before the first resource is created, since each module needs these tags or the output of such a module.
var refusals = filter(
  [
    {
      if: (enableCallbacks || enableWebhooks) && networkIsolation && hosting == 'FlexConsumption'
      text: 'Flex Consumption cannot read secrets of a key vault without public access: with networkIsolation, set hosting = ElasticPremium, or disable callbacks and webhooks'
    }
    {
      if: monthlyBudget > 0 && (empty(alertEmails) || empty(monthlyBudgetStart))
      text: 'monthlyBudget needs alertEmails and monthlyBudgetStart: set LUCIUS_ALERT_EMAILS and LUCIUS_MONTHLY_BUDGET_START'
    }
    {
      if: !empty(unknownServices)
      text: 'platformServices names ${join(unknownServices, ', ')}, not found in topology.json: add these services to topology.json, or remove them from platformServices'
    }
    {
      if: ownNetwork != null && !networkIsolation
      text: 'ownNetwork requires networkIsolation = true: set networkIsolation = true, or remove ownNetwork'
    }
    {
      if: ownNetwork != null && runsApps && empty(ownNetwork.?containerSubnetResourceId ?? '')
      text: 'ownNetwork has no containerSubnetResourceId: set LUCIUS_CONTAINER_SUBNET_ID, or containerApps = false if platform services run elsewhere'
    }
    {
      if: existingResourceGroup && empty(resourceGroupName)
      text: 'existingResourceGroup needs resourceGroupName: set LUCIUS_RESOURCE_GROUP'
    }
    {
      if: signHeads && (tuning.?LUCIUS_EVENTS ?? '') == 'off'
      text: 'signHeads requires events: set tuning.LUCIUS_EVENTS = feed or topic, or signHeads = false'
    }
    {
      if: !isShare(traceRatio)
      text: 'traceRatio is ${traceRatio}, not a number from 0 to 1: write 0, 1, or 0. with digits'
    }
  ],
  refusal => refusal.if
)
var allTags = !empty(refusals)
  ? fail(refusals[0].text)
  : union(tags, {
      'azd-env-name': environmentName
      application: 'lucius'
      environment: environmentName
    })
var operator = {
  principalId: empty(operatorPrincipalId) ? deployer().objectId : operatorPrincipalId
  principalType: operatorPrincipalType
}
var tester = empty(smokePrincipalId)
  ? operator
  : {
      principalId: smokePrincipalId
      principalType: smokePrincipalType
    }
var loginAuthority = '${environment().authentication.loginEndpoint}${tenant().tenantId}'
var auth = {
  audience: authAudience
  issuer: empty(authIssuer) ? '${loginAuthority}/v2.0' : authIssuer
  jwksUrl: empty(authJwksUrl) ? '${loginAuthority}/discovery/v2.0/keys' : authJwksUrl
  tenantClaim: authTenantClaim
  tenants: authTenants
  dashboardClientId: dashboardClientId
}

var groupName = empty(resourceGroupName) ? 'rg-lucius-${environmentName}' : resourceGroupName

resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = if (!existingResourceGroup) {
  name: groupName
  location: location
  tags: allTags
}

module platform 'platform.bicep' = {
  scope: resourceGroup(groupName)
  name: 'platform'
  params: {
    suffix: suffix
    token: token
    location: location
    tags: allTags
    hosting: hosting
    networkIsolation: networkIsolation
    addressPrefix: addressPrefix
    ownNetwork: ownNetwork
    zoneResourceGroupId: privateDnsZones
    existingWorkspaceResourceId: workspaceResourceId
    logRetentionDays: logRetentionDays
    logDailyQuotaGb: logDailyQuotaGb
    withVault: keyVault || enableCallbacks || enableWebhooks || signHeads
    callbacks: enableCallbacks && contains(vaultKeys, 'callback')
    webhooks: enableWebhooks && contains(vaultKeys, 'webhook')
    keyOfficers: empty(operatorPrincipalId) ? [] : [operator]
    signHeads: signHeads
  }
  dependsOn: [
    group
  ]
}

module messaging 'messaging.bicep' = {
  scope: resourceGroup(groupName)
  name: 'messaging'
  params: {
    suffix: suffix
    location: location
    tags: allTags
    serviceBusSku: networkIsolation ? 'Premium' : serviceBusSku
    serviceBusCapacity: serviceBusCapacity
    targetBasedScaling: targetBasedScaling
    appPrincipalId: platform.outputs.appPrincipalId
    privateAccess: platform.outputs.?privateAccess
    workspaceResourceId: platform.outputs.workspaceResourceId
  }
}

module data 'data.bicep' = {
  scope: resourceGroup(groupName)
  name: 'data'
  params: {
    suffix: suffix
    token: token
    location: location
    tags: allTags
    storageSku: storageSku
    lockLedger: lockLedger
    softDeleteDays: softDeleteDays
    workspaceRetentionDays: workspaceRetentionDays
    storageRequestLogs: storageRequestLogs
    queues: durableBackend == 'AzureStorage'
    anchors: signHeads
    lockAnchors: lockAnchors
    appConfiguration: appConfiguration
    appConfigurationSku: networkIsolation && appConfigurationSku == 'developer' ? 'standard' : appConfigurationSku
    appPrincipalId: platform.outputs.appPrincipalId
    operator: operator
    tester: tester
    testerUploads: operatorRunsServices
    privateAccess: platform.outputs.?privateAccess
    workspaceResourceId: platform.outputs.workspaceResourceId
  }
}

// While topics forward, an older app that reads lanes loses no reply: it delays timeouts, and its sweeper reads the queue. If
// topics do not forward, the app must read the topics. Forwarding therefore starts before a change of the app, and stops after it.
module forwardedReplies 'modules/reply-subscriptions.bicep' = if (replies == 'Shared') {
  scope: resourceGroup(groupName)
  name: 'forwarded-replies'
  params: {
    namespaceName: messaging.outputs.name
    forward: true
  }
}

module laneReplies 'modules/reply-subscriptions.bicep' = if (replies == 'Lanes') {
  scope: resourceGroup(groupName)
  name: 'lane-replies'
  params: {
    namespaceName: messaging.outputs.name
    forward: false
  }
  dependsOn: [
    compute
  ]
}

module compute 'compute.bicep' = {
  scope: resourceGroup(groupName)
  name: 'compute'
  params: {
    environmentName: environmentName
    suffix: suffix
    location: location
    tags: allTags
    hosting: hosting
    scale: scale
    durableBackend: durableBackend
    schedulerSku: schedulerSku
    schedulerCapacity: schedulerCapacity
    tuning: tuning
    publicUrl: publicUrl
    webhooks: enableWebhooks
    auth: auth
    identity: platform.outputs.identity
    appPrincipalId: platform.outputs.appPrincipalId
    packageUri: data.outputs.packageUri
    runtimeStorage: data.outputs.runtime
    ledger: data.outputs.ledger
    workspaceUri: data.outputs.workspaceUri
    workspaceRetentionDays: workspaceRetentionDays
    referenceHosts: data.outputs.referenceHosts
    serviceBusNamespace: messaging.outputs.fullyQualifiedNamespace
    traceRatio: traceRatio
    replies: replies
    eventsNamespace: eventsNamespace
    appConfigurationEndpoint: data.outputs.storeEndpoint
    callbackKeysUri: platform.outputs.callbackKeysUri
    webhookKeysUri: platform.outputs.webhookKeysUri
    auditKeyUrl: platform.outputs.auditKeyUrl
    anchorsEndpoint: data.outputs.anchorsEndpoint
    applicationInsightsConnectionString: platform.outputs.applicationInsightsConnectionString
    appSubnetResourceId: platform.outputs.appSubnetResourceId
    privateAccess: platform.outputs.?privateAccess
    workspaceResourceId: platform.outputs.workspaceResourceId
  }
  dependsOn: [
    forwardedReplies
  ]
}

module services 'services.bicep' = {
  scope: resourceGroup(groupName)
  name: 'services'
  params: {
    suffix: suffix
    token: token
    location: location
    tags: allTags
    platformServices: allPlatformServices
    containerApps: containerApps
    imageTag: serviceImageTag
    registryResourceId: registryResourceId
    containerSubnetResourceId: platform.outputs.containerSubnetResourceId
    zoneRedundant: scale.?zoneRedundant ?? false
    serviceBusName: messaging.outputs.name
    serviceBusNamespace: messaging.outputs.fullyQualifiedNamespace
    documents: data.outputs.documents
    documentsEndpoint: data.outputs.documentsEndpoint
    workspaceResourceId: platform.outputs.workspaceResourceId
    tester: tester
    testerRunsServices: operatorRunsServices
  }
}

module observability 'observability.bicep' = {
  scope: resourceGroup(groupName)
  name: 'observability'
  params: {
    environmentName: environmentName
    suffix: suffix
    location: location
    tags: allTags
    alerts: alerts
    alertThresholds: alertThresholds
    signHeads: signHeads
    alertEmails: alertEmails
    actionGroupIds: actionGroupIds
    monthlyBudget: monthlyBudget
    monthlyBudgetStart: monthlyBudgetStart
    ownsWorkspace: empty(workspaceResourceId)
    workspaceResourceId: platform.outputs.workspaceResourceId
    serviceBusResourceId: messaging.outputs.resourceId
    ledgerResourceId: data.outputs.ledgerResourceId
  }
}

// Runs late, since the role with which the deploying identity writes to the store takes minutes to take effect.
module protocols 'modules/app-configuration-keys.bicep' = if (appConfiguration && seedProtocols && !networkIsolation) {
  scope: resourceGroup(groupName)
  name: 'protocols'
  params: {
    storeName: data.outputs.storeName
    defaultMode: defaultMode
    tenantModes: tenantModes
  }
  dependsOn: [
    compute
    observability
  ]
}

@description('Name of the resource group.')
output AZURE_RESOURCE_GROUP string = groupName

@description('Name of the function app.')
output LUCIUS_FUNCTION_APP string = compute.outputs.appName

@description('URL of the API.')
output LUCIUS_API_URL string = compute.outputs.url

@description('Audience of callers\' tokens.')
output LUCIUS_AUTH_AUDIENCE string = authAudience

@description('Host name of the Service Bus namespace.')
output LUCIUS_SERVICEBUS_NAMESPACE string = messaging.outputs.fullyQualifiedNamespace

@description('Blob endpoint of documents, workspaces, results and runs.')
output LUCIUS_DOCUMENTS_ENDPOINT string = data.outputs.documentsEndpoint

@description('Name of the App Configuration store. Empty if the template creates no store.')
output LUCIUS_APPCONFIG_NAME string = data.outputs.storeName

@description('Name of the key vault. Empty if the template creates no key vault.')
output LUCIUS_KEY_VAULT string = platform.outputs.vaultName

@description('Name of the ledger\'s storage account.')
output LUCIUS_LEDGER_ACCOUNT string = last(split(data.outputs.ledgerResourceId, '/'))

@description('Resource id of the subnet for self-hosted runners. Empty without network isolation, and with `ownNetwork`.')
output LUCIUS_SERVICE_SUBNET string = platform.outputs.serviceSubnetResourceId

@description('Client ids of the identities of platform services.')
output LUCIUS_SERVICE_CLIENT_IDS {
  @description('Name of the service.')
  service: string

  @description('Client id of the identity that the template created for the service. The service needs the id as AZURE_CLIENT_ID. Empty if `platformServices` has a `principalId` for the service.')
  clientId: string
}[] = services.outputs.clientIds

@description('Name of the registry of the platform services\' images. Empty if no container app needs a registry.')
output LUCIUS_REGISTRY string = last(split(services.outputs.registryResourceId, '/'))
