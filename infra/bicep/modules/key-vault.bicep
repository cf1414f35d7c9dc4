metadata name = 'Key vault'
metadata description = 'Holds the keys of callback tokens and of webhooks, the secrets that LUCIUS has. Made only where one of them is on.'

import { privateAccessType, roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Name of the vault, unique in Azure.')
@minLength(3)
@maxLength(24)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Keys of callback tokens, `kid:base64key`, separated by commas. The first signs, all verify. Empty: callbacks are disabled.')
@secure()
param callbackKeys string = ''

@description('Optional. Keys from which webhook secrets are derived, `kid:base64key`, separated by commas. New secrets use the first. Empty: webhooks are disabled.')
@secure()
param webhookKeys string = ''

@description('Optional. Retention of deleted vaults and secrets in days (soft delete).')
@minValue(7)
@maxValue(90)
param softDeleteDays int = 90

@description('Optional. Roles on the vault.')
param roleAssignments roleAssignmentType[] = []

@description('Optional. Settings of the private endpoint. If absent, the public endpoint accepts identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

resource vault 'Microsoft.KeyVault/vaults@2025-05-01' = {
  name: name
  location: location
  // what a later deployment must bring along again: infra/hooks/check_keys.sh
  tags: union(tags, {
    keys: '${empty(callbackKeys) ? '' : 'callback'}${empty(webhookKeys) ? '' : ' webhook'}'
  })
  properties: {
    tenantId: tenant().tenantId
    sku: {
      family: 'A'
      name: 'standard'
    }
    enableRbacAuthorization: true
    enablePurgeProtection: true
    enableSoftDelete: true
    softDeleteRetentionInDays: softDeleteDays
    publicNetworkAccess: privateAccess == null ? 'Enabled' : 'Disabled'
    networkAcls: {
      bypass: privateAccess == null ? 'AzureServices' : 'None'
      defaultAction: privateAccess == null ? 'Allow' : 'Deny'
    }
  }
}

resource callbackSecret 'Microsoft.KeyVault/vaults/secrets@2025-05-01' = if (!empty(callbackKeys)) {
  parent: vault
  name: 'lucius-callback-keys'
  tags: tags
  properties: {
    value: callbackKeys
    contentType: 'kid:base64key, with commas between'
    attributes: {
      enabled: true
    }
  }
}

resource webhookSecret 'Microsoft.KeyVault/vaults/secrets@2025-05-01' = if (!empty(webhookKeys)) {
  parent: vault
  name: 'lucius-webhook-keys'
  tags: tags
  properties: {
    value: webhookKeys
    contentType: 'kid:base64key, with commas between'
    attributes: {
      enabled: true
    }
  }
}

resource roles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for assignment in roleAssignments: {
    name: guid(vault.id, assignment.principalId, assignment.role)
    scope: vault
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
    targetResourceId: vault.id
    groupId: 'vault'
    zoneResourceIds: [
      privateAccess!.zones.keyVault
    ]
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: vault
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

@description('Resource id of the vault.')
output resourceId string = vault.id

// the addresses of the secrets, not their values
@description('URI of the secret with callback keys, without a version: the app reads a new version within a day or at a restart. Empty: none.')
#disable-next-line outputs-should-not-contain-secrets
output callbackKeysUri string = callbackSecret.?properties.secretUri ?? ''

@description('URI of the secret with webhook keys, without a version. Empty: none.')
#disable-next-line outputs-should-not-contain-secrets
output webhookKeysUri string = webhookSecret.?properties.secretUri ?? ''
