metadata name = 'Monitoring over private link'
metadata description = 'A private link scope for the workspace and Application Insights, and the private endpoint of the scope.'

import { tagsType } from 'shapes.bicep'

@description('Required. Name of the private link scope.')
param name string

@description('Required. Region of the private endpoint.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Required. Resource id of the Log Analytics workspace.')
param workspaceResourceId string

@description('Required. Resource id of the Application Insights resource.')
param componentResourceId string

@description('Required. Resource id of the subnet of private endpoints.')
param subnetResourceId string

@description('Required. Resource ids of the private DNS zones of Azure Monitor.')
param zoneResourceIds string[]

resource linkScope 'Microsoft.Insights/privateLinkScopes@2021-09-01' = {
  name: name
  location: 'global'
  tags: tags
  properties: {
    accessModeSettings: {
      ingestionAccessMode: 'PrivateOnly'
      queryAccessMode: 'Open'
    }
  }
}

resource scopedWorkspace 'Microsoft.Insights/privateLinkScopes/scopedResources@2021-09-01' = {
  parent: linkScope
  name: 'workspace'
  properties: {
    linkedResourceId: workspaceResourceId
  }
}

resource scopedComponent 'Microsoft.Insights/privateLinkScopes/scopedResources@2021-09-01' = {
  parent: linkScope
  name: 'component'
  properties: {
    linkedResourceId: componentResourceId
  }
  dependsOn: [
    scopedWorkspace
  ]
}

module privateEndpoint 'private-endpoint.bicep' = {
  name: 'pep-${name}'
  params: {
    name: 'pep-${name}'
    location: location
    tags: tags
    subnetResourceId: subnetResourceId
    targetResourceId: linkScope.id
    groupId: 'azuremonitor'
    zoneResourceIds: zoneResourceIds
  }
  dependsOn: [
    scopedComponent
  ]
}

@description('Resource id of the private link scope.')
output resourceId string = linkScope.id
