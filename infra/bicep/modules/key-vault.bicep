metadata name = 'Key vault'
metadata description = 'The key vault with the key that signs heads and anchors, and with the keys of callbacks and webhooks. Only the hooks check_keys.sh and rotate_keys.sh write the keys of callbacks and webhooks, and the template reads none of them.'

import { keyVaultCryptoUser } from 'roles.bicep'
import { privateAccessType, roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Name of the vault, unique in Azure.')
@minLength(3)
@maxLength(24)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Object id of the identity that signs heads and anchors. If empty, the template creates no signing key.')
param signerPrincipalId string = ''

@description('Optional. Retention of deleted vaults, keys and secrets in days (soft delete).')
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
  tags: tags
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

// the private part never leaves the vault; the app signs with a new version within an hour
resource auditKey 'Microsoft.KeyVault/vaults/keys@2025-05-01' = if (!empty(signerPrincipalId)) {
  parent: vault
  name: 'lucius-audit'
  tags: tags
  properties: {
    kty: 'EC'
    curveName: 'P-256'
    keyOps: [
      'sign'
      'verify'
    ]
    attributes: {
      enabled: true
      exportable: false
    }
  }
}

resource signer 'Microsoft.Authorization/roleAssignments@2022-04-01' = if (!empty(signerPrincipalId)) {
  name: guid(vault.id, 'lucius-audit', signerPrincipalId, keyVaultCryptoUser)
  scope: auditKey
  properties: {
    principalId: signerPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', keyVaultCryptoUser)
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

@description('Name of the vault.')
output name string = vault.name

@description('URI of the vault, with a slash at the end.')
output uri string = vault.properties.vaultUri

@description('URL of the key that signs heads and anchors, without a version. Empty if the template creates no signing key.')
output auditKeyUrl string = auditKey.?properties.keyUri ?? ''
