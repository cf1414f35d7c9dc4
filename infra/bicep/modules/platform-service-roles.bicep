metadata name = 'Rights of a platform service'
metadata description = 'Roles of an identity that acts as platform services. The identity receives from its subscriptions, sends to each reply lane, and reads documents, results and workspaces. The identity writes results, and in workspaces the folders of its own step types. The service `packs` also reads, writes and deletes blobs of the container of runs. No identity of a service can delete a blob of the results, except with the whole container, or access the ledger.'

import { serviceBusDataReceiver, serviceBusDataSender, storageBlobDataContributor, storageBlobDataReader } from 'roles.bicep'
import { documentsType } from 'storage.bicep'

@description('Required. Names of the services in topology.json that the identity acts as.')
@minLength(1)
param serviceNames string[]

@description('Required. Object id of the identity.')
param principalId string

@description('Required. Type of the identity.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param principalType string

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

@description('Required. Storage of documents and workspaces.')
param documents documentsType

var topology = loadJsonContent('../topology.json')
var lanes = range(0, topology.lanes)
var serviceCount = length(serviceNames)
// https://learn.microsoft.com/azure/storage/blobs/storage-auth-abac-examples
var blobActions = 'Microsoft.Storage/storageAccounts/blobServices/containers/blobs'
// workspace/SYSTEM/TENANT/JOB/STEP_TYPE/...
var ownFolders = map(
  filter(topology.services, service => contains(serviceNames, service.name)),
  service => '@Resource[${blobActions}:path] StringLike \'*/${service.stepType}/*\''
)

var neverDelete = allBut(['delete', 'move/action'])
var neverElsewhere = allBut(['delete', 'move/action', 'write', 'add/action'])

@description('Returns a condition that is true for all actions on blobs except `actions`.')
func allBut(actions string[]) string =>
  join(
    map(
      actions,
      action => '!(ActionMatches{\'Microsoft.Storage/storageAccounts/blobServices/containers/blobs/${action}\'})'
    ),
    ' AND '
  )

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
  name: documents.accountName
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-06-01' existing = {
  parent: documentsAccount
  name: 'default'
}

resource inputContainers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-06-01' existing = [
  for container in documents.inputContainers: {
    parent: blobs
    name: container
  }
]

resource resultsContainer 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-06-01' existing = {
  parent: blobs
  name: documents.resultsContainer
}

resource workspaceContainer 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-06-01' existing = {
  parent: blobs
  name: documents.workspaceContainer
}

resource runsContainer 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-06-01' existing = {
  parent: blobs
  name: documents.runsContainer
}

resource receiverRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for index in range(0, topology.lanes * serviceCount): {
    name: guid(subscriptions[index].id, principalId, serviceBusDataReceiver)
    scope: subscriptions[index]
    properties: {
      principalId: principalId
      principalType: principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', serviceBusDataReceiver)
    }
  }
]

resource senderRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for lane in lanes: {
    name: guid(replyTopics[lane].id, principalId, serviceBusDataSender)
    scope: replyTopics[lane]
    properties: {
      principalId: principalId
      principalType: principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', serviceBusDataSender)
    }
  }
]

resource readerRoles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (container, index) in documents.inputContainers: {
    name: guid(inputContainers[index].id, principalId, storageBlobDataReader)
    scope: inputContainers[index]
    properties: {
      principalId: principalId
      principalType: principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', storageBlobDataReader)
    }
  }
]

resource resultsRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(resultsContainer.id, principalId, storageBlobDataContributor)
  scope: resultsContainer
  properties: {
    principalId: principalId
    principalType: principalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', storageBlobDataContributor)
    condition: '(${neverDelete})'
    conditionVersion: '2.0'
  }
}

resource workspaceRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(workspaceContainer.id, principalId, storageBlobDataContributor)
  scope: workspaceContainer
  properties: {
    principalId: principalId
    principalType: principalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', storageBlobDataContributor)
    condition: '((${neverElsewhere}) OR (${join(ownFolders, ' OR ')}))'
    conditionVersion: '2.0'
  }
}

resource runsRole 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (contains(serviceNames, 'packs')) {
  name: guid(runsContainer.id, principalId, storageBlobDataContributor)
  scope: runsContainer
  properties: {
    principalId: principalId
    principalType: principalType
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', storageBlobDataContributor)
  }
}
