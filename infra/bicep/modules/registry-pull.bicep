metadata name = 'Pull right'
metadata description = 'The right of an identity to pull images from a registry, also in another resource group or subscription.'

import { acrPull } from 'roles.bicep'

@description('Required. Name of the registry.')
param registryName string

@description('Required. Object id of the identity.')
param principalId string

resource registry 'Microsoft.ContainerRegistry/registries@2025-11-01' existing = {
  name: registryName
}

resource role 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(registry.id, principalId, acrPull)
  scope: registry
  properties: {
    principalId: principalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', acrPull)
  }
}

@description('Host name of the registry.')
output loginServer string = registry.properties.loginServer
