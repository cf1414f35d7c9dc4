metadata name = 'Platform service'
metadata description = 'Gives a platform service what it may do: receive from its own subscription on each lane, send to each reply lane, read and write documents and workspaces. Nothing of the ledger.'

import { tagsType } from 'shapes.bicep'
import { serviceBusDataReceiver, serviceBusDataSender, storageBlobDataContributor } from 'roles.bicep'

@description('Required. Names of the services in topology.json that the identity acts as: those of its subscriptions. A platform team has one; who tries things out by hand may have all.')
@minLength(1)
param serviceNames string[]

@description('Required. Name of the identity that is made for it; not made where `principalId` is given.')
param identityName string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Object id of an identity that it has already. Empty: one is made.')
param principalId string = ''

@description('Optional. What kind of identity `principalId` is.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param principalType string = 'ServicePrincipal'

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

@description('Required. Name of the storage account of documents and workspaces.')
param documentsAccountName string

var topology = loadJsonContent('../topology.json')
var lanes = range(0, topology.lanes)
var serviceCount = length(serviceNames)
var holder = empty(principalId) ? identity!.properties.principalId : principalId
// role assignments are named by what is known before the identity is made
var holderKey = empty(principalId) ? identityName : principalId

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = if (empty(principalId)) {
  name: identityName
  location: location
  tags: tags
}

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: serviceBusName
}

resource directiveTopics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' existing = [
  for lane in lanes: {
    parent: namespace
    name: '${topology.directives.prefix}${lane}'
  }
]

resource subscriptions 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' existing = [
  for index in range(0, topology.lanes * serviceCount): {
    parent: directiveTopics[index / serviceCount]
    name: serviceNames[index % serviceCount]
  }
]

resource replyTopics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' existing = [
  for lane in lanes: {
    parent: namespace
    name: '${topology.replies.prefix}${lane}'
  }
]

resource documentsAccount 'Microsoft.Storage/storageAccounts@2025-06-01' existing = {
  name: documentsAccountName
}

resource receiverRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for index in range(0, topology.lanes * serviceCount): {
    name: guid(subscriptions[index].id, holderKey, serviceBusDataReceiver)
    scope: subscriptions[index]
    properties: {
      principalId: holder
      principalType: principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', serviceBusDataReceiver)
    }
  }
]

resource senderRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for lane in lanes: {
    name: guid(replyTopics[lane].id, holderKey, serviceBusDataSender)
    scope: replyTopics[lane]
    properties: {
      principalId: holder
      principalType: principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', serviceBusDataSender)
    }
  }
]

resource documentsRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(documentsAccount.id, holderKey, storageBlobDataContributor)
  scope: documentsAccount
  properties: {
    principalId: holder
    principalType: principalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', storageBlobDataContributor)
  }
}

@description('Resource id of the identity that was made; empty where one was given.')
output identityResourceId string = identity.?id ?? ''

@description('Client id of the identity that was made: AZURE_CLIENT_ID of the service. Empty where one was given.')
output identityClientId string = identity.?properties.clientId ?? ''

@description('Object id that holds the rights.')
output principalId string = holder
