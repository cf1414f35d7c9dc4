metadata name = 'Container registry'
metadata description = 'The registry of the images of platform services. Only identities can use the registry, because it has no admin user.'

import { tagsType } from 'shapes.bicep'

@description('Required. Name of the registry, unique in Azure.')
@minLength(5)
@maxLength(50)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the registry.')
param tags tagsType = {}

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

resource registry 'Microsoft.ContainerRegistry/registries@2025-11-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: 'Basic'
  }
  properties: {
    adminUserEnabled: false
    anonymousPullEnabled: false
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: registry
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      {
        categoryGroup: 'allLogs'
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

@description('Resource id of the registry.')
output resourceId string = registry.id
