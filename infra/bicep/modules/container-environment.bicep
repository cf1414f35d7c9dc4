metadata name = 'Container Apps environment'
metadata description = 'The Container Apps environment of the platform services. The environment sends logs to the workspace without a key.'

import { tagsType } from 'shapes.bicep'

@description('Required. Name of the environment.')
@minLength(2)
@maxLength(60)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Required. Resource id of the subnet of the environment, delegated to Microsoft.App/environments. Empty means a network that Azure manages.')
param subnetResourceId string

@description('Required. `true` spreads the environment over availability zones. Zones require a subnet.')
param zoneRedundant bool

@description('Required. Resource id of the Log Analytics workspace for logs.')
param workspaceResourceId string

resource environment 'Microsoft.App/managedEnvironments@2025-07-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    appLogsConfiguration: {
      destination: 'azure-monitor'
    }
    // a platform service gets no requests, so it has no ingress
    publicNetworkAccess: 'Disabled'
    vnetConfiguration: empty(subnetResourceId)
      ? null
      : {
          infrastructureSubnetId: subnetResourceId
          internal: true
        }
    workloadProfiles: [
      {
        name: 'Consumption'
        workloadProfileType: 'Consumption'
      }
    ]
    zoneRedundant: zoneRedundant && !empty(subnetResourceId)
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: environment
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      {
        categoryGroup: 'allLogs'
        enabled: true
      }
    ]
  }
}

@description('Resource id of the environment.')
output resourceId string = environment.id
