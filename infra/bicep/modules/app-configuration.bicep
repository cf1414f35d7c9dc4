metadata name = 'App Configuration'
metadata description = 'The store whose protocols and modes override those of the package. app-configuration-keys.bicep writes the keys of the store.'

import { privateAccessType, roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Name of the store, unique in Azure.')
@minLength(5)
@maxLength(50)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Tier. Private endpoints need Standard or Premium.')
@allowed([
  'developer'
  'standard'
  'premium'
])
param skuName string = 'standard'

@description('Optional. `true` prevents the purge of a deleted store for seven days. Standard and Premium only.')
param purgeProtection bool = false

@description('Optional. Roles on the store.')
param roleAssignments roleAssignmentType[] = []

@description('Optional. Settings of the private endpoint. If absent, the public endpoint accepts identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

resource store 'Microsoft.AppConfiguration/configurationStores@2024-06-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: skuName
  }
  properties: {
    disableLocalAuth: true
    enablePurgeProtection: purgeProtection && skuName != 'developer'
    publicNetworkAccess: privateAccess == null ? 'Enabled' : 'Disabled'
    // the deployer's identity writes key-values, not the store's access keys, which are disabled
    dataPlaneProxy: {
      authenticationMode: 'Pass-through'
      privateLinkDelegation: 'Disabled'
    }
  }
}

resource roles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for assignment in roleAssignments: {
    name: guid(store.id, assignment.principalId, assignment.role)
    scope: store
    properties: {
      principalId: assignment.principalId
      principalType: assignment.?principalType ?? 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', assignment.role)
    }
  }
]

module privateEndpoint 'private-endpoint.bicep' = if (privateAccess != null) {
  name: 'pep-${name}'
  params: {
    name: 'pep-${name}'
    location: location
    tags: tags
    subnetResourceId: privateAccess!.subnetResourceId
    targetResourceId: store.id
    groupId: 'configurationStores'
    zoneResourceIds: [
      privateAccess!.zones.appConfiguration
    ]
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: store
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      {
        categoryGroup: 'audit'
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

@description('Resource id of the store.')
output resourceId string = store.id

@description('Name of the store.')
output name string = store.name

@description('Endpoint of the store.')
output endpoint string = store.properties.endpoint
