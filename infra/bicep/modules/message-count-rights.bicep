metadata name = 'Message count rights'
metadata description = 'The right of an identity to read the number of messages on each lane. Service Bus shows counts only to owners, so code must not get tokens of this identity.'

import { serviceBusDataOwner } from 'roles.bicep'

@description('Required. Object id of the identity.')
param principalId string

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

var topology = loadJsonContent('../topology.json')

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: serviceBusName
}

resource directiveTopics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' existing = [
  for lane in range(0, topology.lanes): {
    parent: namespace
    name: '${topology.directives.prefix}${lane}'
  }
]

resource roles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for lane in range(0, topology.lanes): {
    name: guid(directiveTopics[lane].id, principalId, serviceBusDataOwner)
    scope: directiveTopics[lane]
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', serviceBusDataOwner)
    }
  }
]
