metadata name = 'Compute'
metadata description = 'What runs: the function app with its settings, its durable backend, and the identities of platform services.'

import { authType, tuningType } from 'modules/app-settings.bicep'
import { scaleType } from 'modules/function-app.bicep'
import { durableTaskDataContributor } from 'modules/roles.bicep'
import { holderType, identityType, privateAccessType, tagsType } from 'modules/shapes.bicep'
import { documentsType, ledgerType, runtimeType } from 'modules/storage.bicep'

@description('Required. Name of the environment, in the source of public events.')
param environmentName string

@description('Required. End of the names of the resources.')
@minLength(22)
@maxLength(41)
param suffix string

@description('Required. Region.')
param location string

@description('Required. Tags of the resources.')
param tags tagsType

@description('Required. What runs the app. FlexConsumption scales each reply lane by itself and to nothing; ElasticPremium keeps whole instances warm.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
])
param hosting string

@description('Required. Size, bounds and warm instances of the app.')
param scale scaleType

@description('Required. Backend of Durable Functions; the package carries the host.json of the same one (scripts/package.py). Changing it ends what runs: the sweeper starts those jobs again from the ledger.')
@allowed([
  'DurableTaskScheduler'
  'AzureStorage'
])
param durableBackend string

@description('Required. Tier of the Durable Task Scheduler: Consumption is paid by the action, Dedicated by the unit.')
@allowed([
  'Consumption'
  'Dedicated'
])
param schedulerSku string

@description('Required. Units of a Dedicated scheduler; three make it redundant over zones.')
@minValue(1)
@maxValue(3)
param schedulerCapacity int

@description('Required. Settings of LUCIUS that differ from their defaults.')
param tuning tuningType

@description('Required. The app\'s own address as callers and platform services see it. Empty: its default host name.')
param publicUrl string

@description('Required. Whether there are webhooks.')
param webhooks bool

@description('Required. Whose tokens are taken.')
param auth authType

@description('Required. The app\'s identity.')
param identity identityType

@description('Required. Object id of the app\'s identity.')
param appPrincipalId string

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
@maxValue(36500)
param workspaceRetentionDays int

@description('Required. Allowed references of jobs.')
@minLength(1)
param referenceHosts string[]

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

@description('Required. Host name of the Service Bus namespace.')
param serviceBusNamespace string

@description('Required. Host name of another Service Bus namespace that has the topic of public events, which the app may send to (docs/guides/optional-features.md, Public events). Empty: the namespace of this template.')
param eventsNamespace string

@description('Required. Address of the App Configuration store. Empty: none.')
param appConfigurationEndpoint string

@description('Required. Address of the secret with callback keys. Empty: none.')
param callbackKeysUri string

@description('Required. Address of the secret with the keys of webhooks. Empty: none.')
param webhookKeysUri string

@description('Required. Where telemetry goes.')
param applicationInsightsConnectionString string

@description('Required. Resource id of the app\'s subnet. Empty: no isolation.')
param appSubnetResourceId string

@description('Optional. How private endpoints are made. Absent: the public endpoints are open to identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

@description('Required. What platform services have a right to.')
param documents documentsType

@description('Required. Platform services that get an identity with the rights to their subscriptions.')
param platformServices platformServiceType[]

@description('Required. Who runs the smoke test.')
param tester holderType

@description('Required. Whether that one acts as every platform service.')
param testerRunsServices bool

@export()
@description('A platform service that gets rights.')
@sealed()
type platformServiceType = {
  @description('Required. Its name in topology.json.')
  name: string

  @description('Optional. Object id of an identity that it has already, for example in another subscription. Absent: one is made.')
  principalId: string?
}

var topology = loadJsonContent('topology.json')
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
    durable: {
      backend: durableBackend
      taskHubName: durableTask.?outputs.taskHubName ?? 'lucius'
      endpoint: durableTask.?outputs.endpoint
    }
    appConfigurationEndpoint: appConfigurationEndpoint
    callbackKeysUri: callbackKeysUri
    webhookKeysUri: webhookKeysUri
    publicUrl: functionApp.outputs.url
    environmentName: environmentName
    auth: auth
    tuning: tuning
    applicationInsightsConnectionString: applicationInsightsConnectionString
  }
}

module services 'modules/platform-service.bicep' = [
  for service in platformServices: {
    name: 'platform-service-${service.name}'
    params: {
      serviceNames: [
        service.name
      ]
      identityName: 'id-${service.name}-${suffix}'
      location: location
      tags: tags
      principalId: service.?principalId ?? ''
      serviceBusName: serviceBusName
      documents: documents
    }
  }
]

module operatorServices 'modules/platform-service.bicep' = if (testerRunsServices) {
  name: 'platform-services-of-the-operator'
  params: {
    serviceNames: map(topology.services, service => service.name)
    identityName: 'none'
    location: location
    principalId: tester.principalId
    principalType: tester.principalType
    serviceBusName: serviceBusName
    documents: documents
  }
}

@description('Name of the function app.')
output appName string = functionApp.outputs.name

@description('Address of the API.')
output url string = functionApp.outputs.url

@description('Client ids of the identities that were made for platform services.')
output serviceClientIds {
  @description('Name of the service.')
  service: string

  @description('Client id of its identity. Empty: it has one of its own.')
  clientId: string
}[] = [
  for (service, index) in platformServices: {
    service: service.name
    clientId: services[index].outputs.identityClientId
  }
]
