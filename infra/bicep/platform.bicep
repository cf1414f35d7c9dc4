metadata name = 'Platform'
metadata description = 'The base of the other modules: the identity of the app, logs and telemetry, the network, and the key vault.'

import { keyVaultSecretsOfficer, keyVaultSecretsUser, monitoringMetricsPublisher } from 'modules/roles.bicep'
import { holderType, identityType, ownNetworkType, privateAccessType, tagsType } from 'modules/shapes.bicep'

@description('Required. Suffix of the resource names.')
@minLength(22)
@maxLength(41)
param suffix string

@description('Required. Suffix that makes names unique in Azure.')
@minLength(13)
@maxLength(13)
param token string

@description('Required. Region.')
param location string

@description('Required. Tags of the resources.')
param tags tagsType

@description('Required. Hosting plan of the app, which determines the delegation of the app\'s subnet.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
  'AppService'
])
param hosting string

@description('Required. `true` creates private endpoints in a virtual network for the app and its Azure services, and turns off the public access to these resources. The registry, queries of logs and, with `existingWorkspaceResourceId`, telemetry stay public, for identities with a role. Service Bus is then Premium.')
param networkIsolation bool

@description('Required. Address space of a new virtual network, a /22 or larger.')
param addressPrefix string

@description('Optional. An existing virtual network for network isolation. If absent, the template creates a network.')
param ownNetwork ownNetworkType?

@description('Required. Resource id of the resource group that has the private DNS zones. If empty, the template creates zones. `none` means that a policy writes the records.')
param zoneResourceGroupId string

@description('Required. Resource id of an existing Log Analytics workspace. If empty, the template creates a workspace.')
param existingWorkspaceResourceId string

@description('Required. Retention of logs in days, in a new workspace.')
@minValue(30)
@maxValue(730)
param logRetentionDays int

@description('Required. Maximum log ingestion per day in GB, in a new workspace. -1 means no limit.')
@minValue(-1)
param logDailyQuotaGb int

@description('Required. `true` creates a key vault.')
param withVault bool

@description('Required. `true` if callbacks are enabled and the vault has the callback keys.')
param callbacks bool

@description('Required. `true` if webhooks are enabled and the vault has the webhook keys.')
param webhooks bool

@description('Required. Identities that can write the keys of callbacks and webhooks.')
param keyOfficers holderType[]

@description('Required. `true` creates the key that signs heads and anchors.')
param signHeads bool

var telemetryIsPrivate = networkIsolation && empty(existingWorkspaceResourceId)
var endpointSubnetResourceId = ownNetwork.?endpointSubnetResourceId ?? network.?outputs.endpointSubnetResourceId ?? ''
var privateAccess = networkIsolation
  ? {
      subnetResourceId: endpointSubnetResourceId
      zones: privateDns!.outputs.zones
    }
  : null

module identity 'modules/identity.bicep' = {
  name: 'identity'
  params: {
    name: 'id-${suffix}'
    location: location
    tags: tags
  }
}

module monitoring 'modules/monitoring.bicep' = {
  name: 'monitoring'
  params: {
    existingWorkspaceResourceId: existingWorkspaceResourceId
    workspaceName: 'log-${suffix}'
    componentName: 'appi-${suffix}'
    location: location
    tags: tags
    retentionDays: logRetentionDays
    dailyQuotaGb: logDailyQuotaGb
    isolated: telemetryIsPrivate
    roleAssignments: [
      {
        principalId: identity.outputs.principalId
        role: monitoringMetricsPublisher
      }
    ]
  }
}

module network 'modules/network.bicep' = if (networkIsolation && ownNetwork == null) {
  name: 'network'
  params: {
    name: 'vnet-${suffix}'
    location: location
    tags: tags
    addressPrefix: addressPrefix
    appSubnetDelegation: hosting == 'FlexConsumption' ? 'Microsoft.App/environments' : 'Microsoft.Web/serverFarms'
    workspaceResourceId: monitoring.outputs.workspaceResourceId
  }
}

module privateDns 'modules/private-dns.bicep' = if (networkIsolation) {
  name: 'private-dns'
  params: {
    virtualNetworkResourceId: split(endpointSubnetResourceId, '/subnets/')[0]
    tags: tags
    zoneResourceGroupId: zoneResourceGroupId
  }
}

// An existing workspace must be in the company's own private link scope, because a network resolves one scope only.
module monitoringPrivateLink 'modules/monitoring-private-link.bicep' = if (telemetryIsPrivate) {
  name: 'monitoring-private-link'
  params: {
    name: 'ampls-${suffix}'
    location: location
    tags: tags
    workspaceResourceId: monitoring.outputs.workspaceResourceId
    componentResourceId: monitoring.outputs.componentResourceId
    subnetResourceId: endpointSubnetResourceId
    zoneResourceIds: privateDns!.outputs.monitorZoneResourceIds
  }
}

module vault 'modules/key-vault.bicep' = if (withVault) {
  name: 'key-vault'
  params: {
    name: 'kv-lucius-${token}'
    location: location
    tags: tags
    signerPrincipalId: signHeads ? identity.outputs.principalId : ''
    privateAccess: privateAccess
    workspaceResourceId: monitoring.outputs.workspaceResourceId
    roleAssignments: concat(
      [
        {
          principalId: identity.outputs.principalId
          role: keyVaultSecretsUser
        }
      ],
      map(keyOfficers, officer => union(officer, { role: keyVaultSecretsOfficer }))
    )
  }
}

@description('The app\'s identity.')
output identity identityType = {
  resourceId: identity.outputs.resourceId
  clientId: identity.outputs.clientId
}

@description('Object id of the app\'s identity.')
output appPrincipalId string = identity.outputs.principalId

@description('Resource id of the Log Analytics workspace.')
output workspaceResourceId string = monitoring.outputs.workspaceResourceId

@description('Connection string of Application Insights.')
output applicationInsightsConnectionString string = monitoring.outputs.connectionString

@description('Settings of private endpoints. Null without network isolation.')
output privateAccess privateAccessType? = privateAccess

@description('Resource id of the app\'s subnet. Empty without network isolation.')
output appSubnetResourceId string = networkIsolation
  ? ownNetwork.?appSubnetResourceId ?? network!.outputs.appSubnetResourceId
  : ''

@description('Resource id of the subnet for self-hosted runners. Empty without network isolation, and with an existing network.')
output serviceSubnetResourceId string = network.?outputs.serviceSubnetResourceId ?? ''

@description('Resource id of the subnet of container apps. Empty without network isolation, and if an existing network has none.')
output containerSubnetResourceId string = networkIsolation
  ? ownNetwork.?containerSubnetResourceId ?? network.?outputs.containerSubnetResourceId ?? ''
  : ''

@description('Name of the key vault. Empty if the template creates no key vault.')
output vaultName string = vault.?outputs.name ?? ''

// URIs of the secrets without a version: the app reads a new version within a day or at a restart
@description('URI of the secret with callback keys. Empty if callbacks are disabled, or if the vault has no callback keys.')
#disable-next-line outputs-should-not-contain-secrets
output callbackKeysUri string = callbacks ? '${vault!.outputs.uri}secrets/lucius-callback-keys' : ''

@description('URI of the secret with webhook keys. Empty if webhooks are disabled, or if the vault has no webhook keys.')
#disable-next-line outputs-should-not-contain-secrets
output webhookKeysUri string = webhooks ? '${vault!.outputs.uri}secrets/lucius-webhook-keys' : ''

@description('URL of the key that signs heads and anchors. Empty if signed heads are disabled.')
output auditKeyUrl string = vault.?outputs.auditKeyUrl ?? ''
