metadata name = 'Compute'
metadata description = 'The function app with its settings, and its durable backend.'

import { authType, tuningType } from 'modules/app-settings.bicep'
import { scaleType } from 'modules/function-app.bicep'
import { durableTaskDataContributor } from 'modules/roles.bicep'
import { identityType, privateAccessType, tagsType } from 'modules/shapes.bicep'
import { ledgerType, runtimeType } from 'modules/storage.bicep'

@description('Required. Name of the environment, which is part of the `source` of public events.')
param environmentName string

@description('Required. Suffix of the resource names.')
@minLength(22)
@maxLength(41)
param suffix string

@description('Required. Region.')
param location string

@description('Required. Tags of the resources.')
param tags tagsType

@description('Required. Hosting plan of the app. FlexConsumption scales each group of functions separately, to zero or more instances. ElasticPremium keeps instances warm. AppService has a fixed number of instances.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
  'AppService'
])
param hosting string

@description('Required. Size, scale limits, warm instances, zone redundancy and update strategy of the app.')
param scale scaleType

@description('Required. Backend of Durable Functions, as in the host.json of the deployed package (scripts/package.py). A change of the backend ends all orchestrations. The sweeper then restarts the jobs from the ledger.')
@allowed([
  'DurableTaskScheduler'
  'AzureStorage'
])
param durableBackend string

@description('Required. Tier of the Durable Task Scheduler. Azure bills Consumption per action and Dedicated per unit.')
@allowed([
  'Consumption'
  'Dedicated'
])
param schedulerSku string

@description('Required. Units of a Dedicated scheduler. Three units make the scheduler zone-redundant.')
@minValue(1)
@maxValue(3)
param schedulerCapacity int

@description('Required. Settings of LUCIUS that differ from their defaults.')
param tuning tuningType

@description('Required. Public URL of the app. Empty means the app\'s default host name.')
param publicUrl string

@description('Required. `true` if webhooks are enabled.')
param webhooks bool

@description('Required. Accepted access tokens.')
param auth authType

@description('Required. The app\'s identity.')
param identity identityType

@description('Required. Object id of the app\'s identity.')
param appPrincipalId string

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
@maxValue(36500)
param workspaceRetentionDays int

@description('Required. Allowed references of jobs: `host`, `host/container` or `host/container/prefix`.')
@minLength(1)
param referenceHosts string[]

@description('Required. Host name of the Service Bus namespace.')
param serviceBusNamespace string

@description('Required. Host name of another Service Bus namespace for public events (docs/guides/optional-features.md). Empty means the namespace of this template.')
param eventsNamespace string

@description('Required. Functions that read replies. `Shared` means one function for all lanes. `Lanes` means one function for each lane.')
@allowed([
  'Shared'
  'Lanes'
])
param replies string

@description('Required. Endpoint of the App Configuration store. If empty, the packaged protocols are in effect.')
param appConfigurationEndpoint string

@description('Required. URI of the secret with callback keys. If empty, callbacks are disabled.')
param callbackKeysUri string

@description('Required. URI of the secret with webhook keys. If empty, webhooks are disabled.')
param webhookKeysUri string

@description('Required. Share of the traces that the app sends to Application Insights, from 0 to 1. The app always sends requests, jobs, failed attempts, log records and metrics.')
@minLength(1)
@maxLength(5)
param traceRatio string

@description('Required. URL of the key that signs heads and anchors. If empty, the app records neither heads nor anchors.')
param auditKeyUrl string

@description('Required. Blob endpoint of the account with anchors. Empty if signed heads are disabled.')
param anchorsEndpoint string

@description('Required. Connection string of Application Insights.')
param applicationInsightsConnectionString string

@description('Required. Resource id of the app\'s subnet. Empty without network isolation.')
param appSubnetResourceId string

@description('Optional. Settings of private endpoints. If absent, the public endpoint of the scheduler accepts identities with a role, and the public endpoint of the app accepts callers with a token.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

var useScheduler = durableBackend == 'DurableTaskScheduler'

module durableTask 'modules/durable-task.bicep' = if (useScheduler) {
  name: 'durable-task'
  params: {
    name: 'dts-${suffix}'
    location: location
    tags: tags
    skuName: schedulerSku
    capacity: schedulerCapacity
    privateAccess: privateAccess
    roleAssignments: [
      {
        principalId: appPrincipalId
        role: durableTaskDataContributor
      }
    ]
  }
}

module functionApp 'modules/function-app.bicep' = {
  name: 'function-app'
  params: {
    name: 'func-${suffix}'
    planName: 'asp-${suffix}'
    location: location
    tags: tags
    hosting: hosting
    scale: scale
    sweepers: int(tuning.?LUCIUS_SWEEPERS ?? '1')
    events: (tuning.?LUCIUS_EVENTS ?? 'feed') != 'off'
    webhooks: webhooks
    replies: replies
    identity: identity
    packageUri: packageUri
    publicUrl: publicUrl
    appSubnetResourceId: appSubnetResourceId
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
  }
}

module appSettings 'modules/app-settings.bicep' = {
  name: 'app-settings'
  params: {
    appName: functionApp.outputs.name
    hosting: hosting
    identity: identity
    packageUri: packageUri
    runtimeStorage: runtimeStorage
    ledger: ledger
    workspaceUri: workspaceUri
    workspaceRetentionDays: workspaceRetentionDays
    referenceHosts: referenceHosts
    serviceBusNamespace: serviceBusNamespace
    eventsNamespace: eventsNamespace
    replies: replies
    durable: {
      backend: durableBackend
      taskHubName: durableTask.?outputs.taskHubName ?? 'lucius'
      endpoint: durableTask.?outputs.endpoint
    }
    appConfigurationEndpoint: appConfigurationEndpoint
    callbackKeysUri: callbackKeysUri
    webhookKeysUri: webhookKeysUri
    auditKeyUrl: auditKeyUrl
    anchorsEndpoint: anchorsEndpoint
    publicUrl: functionApp.outputs.url
    environmentName: environmentName
    auth: auth
    tuning: tuning
    traceRatio: traceRatio
    applicationInsightsConnectionString: applicationInsightsConnectionString
  }
}

@description('Name of the function app.')
output appName string = functionApp.outputs.name

@description('URL of the API.')
output url string = functionApp.outputs.url
