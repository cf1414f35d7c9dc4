metadata name = 'LUCIUS'
metadata description = 'A complete LUCIUS in a resource group of its own: private by parameter, keyless, observable. Deployed at a subscription.'

targetScope = 'subscription'

import { platformServiceType } from 'compute.bicep'
import { thresholdsType } from 'modules/alerts.bicep'
import { tenantModeType } from 'modules/app-configuration-keys.bicep'
import { tenantsType, tuningType } from 'modules/app-settings.bicep'
import { scaleType } from 'modules/function-app.bicep'

// ---------------------------------------------------------------- where and under what names

@description('Required. Name of the environment, for example `dev`: part of each resource name.')
@minLength(1)
@maxLength(20)
param environmentName string

@description('Required. Region with Flex Consumption. The preprovision hook checks whether it also offers the Durable Task Scheduler.')
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

@description('Optional. Name of the resource group. Empty: derived from the environment\'s name.')
@maxLength(90)
param resourceGroupName string = ''

@description('Optional. Tags of each resource, in addition to those of azd and cost reports.')
param tags {
  @description('Optional. A tag.')
  *: string
} = {}

// ---------------------------------------------------------------- the app

@description('Optional. Hosting plan of the app. FlexConsumption scales each reply lane separately, down to zero; ElasticPremium keeps instances warm.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
])
param hosting string = 'FlexConsumption'

@description('Optional. Size, scale limits and warm instances of the app.')
param scale scaleType = {}

@description('Optional. Backend of Durable Functions. The package must have its host.json (scripts/package.py). A change ends all orchestrations; the sweeper restarts their jobs from the ledger.')
@allowed([
  'DurableTaskScheduler'
  'AzureStorage'
])
param durableBackend string = 'DurableTaskScheduler'

@description('Optional. Tier of the Durable Task Scheduler. Billing: Consumption per action, Dedicated per unit.')
@allowed([
  'Consumption'
  'Dedicated'
])
param schedulerSku string = 'Consumption'

@description('Optional. Units of a Dedicated scheduler; three units make it zone-redundant.')
@minValue(1)
@maxValue(3)
param schedulerCapacity int = 1

@description('Optional. Settings of LUCIUS that differ from their defaults.')
param tuning tuningType = {}

@description('Optional. Public URL of the app. Empty: its default host name.')
param publicUrl string = ''

@description('Optional. Keys of callback tokens, `kid:base64key`, separated by commas. The first signs, all verify.')
@secure()
param callbackKeys string = ''

@description('Optional. Enables callbacks and creates a key vault, as `callbackKeys` does. Set it to true in pipelines: a missing secret then stops the deployment instead of deleting the vault.')
param enableCallbacks bool = false

@description('Optional. Keys from which webhook secrets are derived, `kid:base64key`, separated by commas. New secrets use the first.')
@secure()
param webhookKeys string = ''

@description('Optional. Enables webhooks and creates a key vault, as `webhookKeys` does.')
param enableWebhooks bool = false

// ---------------------------------------------------------------- whose tokens are taken

@description('Required. `aud` of callers\' tokens: the client id of the app registration that stands for this API.')
@minLength(1)
param authAudience string

@description('Optional. `iss` of callers\' tokens. Empty: this Entra tenant, tokens of version 2.')
param authIssuer string = ''

@description('Optional. URL of the issuer\'s keys (JWKS). Empty: those of this Entra tenant.')
param authJwksUrl string = ''

@description('Optional. Claim with the caller\'s tenant, if neither `authTenants` nor a role `tenant:NAME` names it. `azp` is the client id of the calling application; public clients are refused.')
@minLength(1)
param authTenantClaim string = 'azp'

@description('Optional. Tenants by values of claims: application id (`azp`), group id (`groups`) or any other.')
param authTenants tenantsType = {}

@description('Optional. Client id of the dashboard at the issuer, for its sign-in. Empty: users paste a token.')
param dashboardClientId string = ''

// ---------------------------------------------------------------- bus, storage, protocols

@description('Optional. Tier of Service Bus. Network isolation always uses Premium, because private endpoints require it.')
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

@description('Optional. Host name of another Service Bus namespace that has the topic of public events, to which the app can send (docs/guides/optional-features.md, Public events). Empty: the namespace of this template.')
param eventsNamespace string = ''

@description('Optional. Whether each reply lane scales by its number of replies. This requires the role Azure Service Bus Data Owner, with which the app can delete topics. Otherwise the app can only send and receive, and a lane scales by one instance at a time while its oldest reply ages.')
param targetBasedScaling bool = false

@description('Optional. Redundancy of the ledger and the documents.')
@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_GZRS'
])
param storageSku string = 'Standard_LRS'

@description('Optional. Days after which the workspaces of attempts are deleted. 0: never.')
@minValue(0)
@maxValue(36500)
param workspaceRetentionDays int = 30

@description('Optional. Retention of deleted blobs in days (soft delete).')
@minValue(1)
@maxValue(365)
param softDeleteDays int = 7

@description('Optional. Whether an App Configuration store overrides protocols and modes. Otherwise the packaged protocols are in effect.')
param appConfiguration bool = true

@description('Optional. Tier of App Configuration. Network isolation uses at least standard, because private endpoints require it.')
@allowed([
  'developer'
  'standard'
  'premium'
])
param appConfigurationSku string = 'standard'

@description('Optional. Whether each deployment writes the protocols of this repository to the store. Has no effect with network isolation, because Resource Manager cannot reach the store: there the packaged protocols are in effect until an operator writes the keys (docs/guides/deploy.md).')
param seedProtocols bool = true

@description('Optional. Mode of requests without a mode.')
@allowed([
  'DEFAULT'
  'BURST'
])
param defaultMode string = 'DEFAULT'

@description('Optional. Modes of requests without a mode, by tenant.')
param tenantModes tenantModeType[] = []

// ---------------------------------------------------------------- platform services and people

@description('Optional. Platform services that get an identity with the rights to their subscriptions. Default: all of topology.json.')
param platformServices platformServiceType[]?

@description('Optional. Object id of the operator, who can write the protocols. Empty: the identity that runs this deployment.')
param operatorPrincipalId string = ''

@description('Optional. Type of that identity.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param operatorPrincipalType string = 'User'

@description('Optional. Object id of the identity that runs the smoke test and can write to the container `smoke`. Empty: the operator.')
param smokePrincipalId string = ''

@description('Optional. Type of that identity, if one is given.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param smokePrincipalType string = 'ServicePrincipal'

@description('Optional. Whether the identity of the smoke test can also act as each platform service and upload documents, for example to run the reference services on a laptop.')
param operatorRunsServices bool = false

// ---------------------------------------------------------------- network and observation

@description('Optional. Whether all services use private endpoints only: a virtual network, private DNS zones, public access off. Requires Premium Service Bus.')
param networkIsolation bool = false

@description('Optional. Address space of the virtual network, a /22 or larger.')
param addressPrefix string = '10.40.0.0/22'

@description('Optional. Retention of logs in days.')
@minValue(30)
@maxValue(730)
param logRetentionDays int = 30

@description('Optional. Maximum log ingestion per day in GB. -1: no limit.')
@minValue(-1)
param logDailyQuotaGb int = -1

@description('Optional. Logs of storage requests. `All` logs each read and write, which costs more than the requests.')
@allowed([
  'Deletes'
  'All'
])
param storageRequestLogs string = 'Deletes'

@description('Optional. Whether alert rules are created.')
param alerts bool = true

@description('Optional. Thresholds of the alert rules.')
param alertThresholds thresholdsType = {}

@description('Optional. Email addresses that receive alerts and budget notifications.')
param alertEmails string[] = []

@description('Optional. Resource ids of existing action groups that also receive alerts.')
param actionGroupIds string[] = []

@description('Optional. Monthly budget in the billing currency; 0: no budget. Requires alertEmails and monthlyBudgetStart.')
@minValue(0)
param monthlyBudget int = 0

@description('Optional. First day of the month in which the budget is created, for example 2026-11-01. Azure refuses to change it.')
param monthlyBudgetStart string = ''

var topology = loadJsonContent('topology.json')
// not the default of the parameter: that may name other parameters only
var allPlatformServices platformServiceType[] = platformServices ?? map(topology.services, service => {
  name: service.name
})
// not the defaults of the parameters: the linter takes a parameter whose default reads a secret for a secret
var callbacks = enableCallbacks || !empty(callbackKeys)
var webhooks = enableWebhooks || !empty(webhookKeys)
var token = uniqueString(subscription().id, environmentName, location)
var suffix = 'lucius-${environmentName}-${token}'
// What does not go together is refused before anything is made: every resource has these tags.
var refusal = callbacks && empty(callbackKeys)
  ? 'enableCallbacks is true and callbackKeys is empty: set LUCIUS_CALLBACK_KEYS (docs/guides/optional-features.md, Callbacks)'
  : webhooks && empty(webhookKeys)
      ? 'enableWebhooks is true and webhookKeys is empty: set LUCIUS_WEBHOOK_KEYS (docs/guides/optional-features.md, Webhooks)'
      : (callbacks || webhooks) && networkIsolation && hosting == 'FlexConsumption'
          ? 'Flex Consumption cannot read a key vault that is closed to the public: with networkIsolation take hosting = ElasticPremium, or switch callbacks and webhooks off'
          : monthlyBudget > 0 && (empty(alertEmails) || empty(monthlyBudgetStart))
              ? 'monthlyBudget needs alertEmails and monthlyBudgetStart: set LUCIUS_ALERT_EMAILS and LUCIUS_MONTHLY_BUDGET_START'
              : ''
var allTags = !empty(refusal)
  ? fail(refusal)
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

resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = {
  name: empty(resourceGroupName) ? 'rg-lucius-${environmentName}' : resourceGroupName
  location: location
  tags: allTags
}

module platform 'platform.bicep' = {
  scope: group
  name: 'platform'
  params: {
    suffix: suffix
    token: token
    location: location
    tags: allTags
    hosting: hosting
    networkIsolation: networkIsolation
    addressPrefix: addressPrefix
    logRetentionDays: logRetentionDays
    logDailyQuotaGb: logDailyQuotaGb
    withVault: callbacks || webhooks
    callbackKeys: callbackKeys
    webhookKeys: webhookKeys
  }
}

module messaging 'messaging.bicep' = {
  scope: group
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
  scope: group
  name: 'data'
  params: {
    suffix: suffix
    token: token
    location: location
    tags: allTags
    storageSku: storageSku
    softDeleteDays: softDeleteDays
    workspaceRetentionDays: workspaceRetentionDays
    storageRequestLogs: storageRequestLogs
    queues: durableBackend == 'AzureStorage'
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

module compute 'compute.bicep' = {
  scope: group
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
    webhooks: webhooks
    auth: auth
    identity: platform.outputs.identity
    appPrincipalId: platform.outputs.appPrincipalId
    packageUri: data.outputs.packageUri
    runtimeStorage: data.outputs.runtime
    ledger: data.outputs.ledger
    workspaceUri: data.outputs.workspaceUri
    workspaceRetentionDays: workspaceRetentionDays
    referenceHosts: data.outputs.referenceHosts
    serviceBusName: messaging.outputs.name
    serviceBusNamespace: messaging.outputs.fullyQualifiedNamespace
    eventsNamespace: eventsNamespace
    appConfigurationEndpoint: data.outputs.storeEndpoint
    callbackKeysUri: platform.outputs.callbackKeysUri
    webhookKeysUri: platform.outputs.webhookKeysUri
    applicationInsightsConnectionString: platform.outputs.applicationInsightsConnectionString
    appSubnetResourceId: platform.outputs.appSubnetResourceId
    privateAccess: platform.outputs.?privateAccess
    workspaceResourceId: platform.outputs.workspaceResourceId
    documents: data.outputs.documents
    platformServices: allPlatformServices
    tester: tester
    testerRunsServices: operatorRunsServices
  }
}

module observability 'observability.bicep' = {
  scope: group
  name: 'observability'
  params: {
    environmentName: environmentName
    suffix: suffix
    location: location
    tags: allTags
    alerts: alerts
    alertThresholds: alertThresholds
    alertEmails: alertEmails
    actionGroupIds: actionGroupIds
    monthlyBudget: monthlyBudget
    monthlyBudgetStart: monthlyBudgetStart
    workspaceName: platform.outputs.workspaceName
    workspaceResourceId: platform.outputs.workspaceResourceId
    serviceBusResourceId: messaging.outputs.resourceId
    ledgerResourceId: data.outputs.ledgerResourceId
  }
}

// Last, since the operator's right to write keys takes minutes to be known everywhere.
module protocols 'modules/app-configuration-keys.bicep' = if (appConfiguration && seedProtocols && !networkIsolation) {
  scope: group
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
output AZURE_RESOURCE_GROUP string = group.name

@description('Name of the function app.')
output LUCIUS_FUNCTION_APP string = compute.outputs.appName

@description('URL of the API.')
output LUCIUS_API_URL string = compute.outputs.url

@description('Audience of callers\' tokens.')
output LUCIUS_AUTH_AUDIENCE string = authAudience

@description('Host name of the bus.')
output LUCIUS_SERVICEBUS_NAMESPACE string = messaging.outputs.fullyQualifiedNamespace

@description('Blob endpoint of documents, workspaces and results.')
output LUCIUS_DOCUMENTS_ENDPOINT string = data.outputs.documentsEndpoint

@description('Name of the App Configuration store; empty: none.')
output LUCIUS_APPCONFIG_NAME string = data.outputs.storeName

@description('Resource id of the subnet for self-hosted runners and platform services; empty: no isolation.')
output LUCIUS_SERVICE_SUBNET string = platform.outputs.serviceSubnetResourceId

@description('Client ids of the identities that were created for platform services.')
output LUCIUS_SERVICE_CLIENT_IDS {
  @description('Name of the service.')
  service: string

  @description('Client id of its identity, for AZURE_CLIENT_ID. Empty: the service has its own identity.')
  clientId: string
}[] = compute.outputs.serviceClientIds
