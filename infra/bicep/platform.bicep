metadata name = 'Platform'
metadata description = 'What all else stands on: the identity of the app, logs and telemetry, the network, and the key vault.'

import { keyVaultSecretsUser, monitoringMetricsPublisher } from 'modules/roles.bicep'
import { identityType, privateAccessType, tagsType } from 'modules/shapes.bicep'

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

@description('Required. Hosting plan of the app; the app\'s subnet is delegated to it.')
@allowed([
  'FlexConsumption'
  'ElasticPremium'
])
param hosting string

@description('Required. Whether all services use private endpoints only: a virtual network, private DNS zones, public access off. Requires Premium Service Bus.')
param networkIsolation bool

@description('Required. Address space of the virtual network, a /22 or larger.')
param addressPrefix string

@description('Required. Retention of logs in days.')
@minValue(30)
@maxValue(730)
param logRetentionDays int

@description('Required. Maximum log ingestion per day in GB. -1: no limit.')
@minValue(-1)
param logDailyQuotaGb int

@description('Required. Whether there is a key vault.')
param withVault bool

@description('Required. Keys of callback tokens, `kid:base64key`, separated by commas. The first signs, all verify.')
@secure()
param callbackKeys string

@description('Required. Keys from which webhook secrets are derived, `kid:base64key`, separated by commas. New secrets use the first.')
@secure()
param webhookKeys string

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
    workspaceName: 'log-${suffix}'
    componentName: 'appi-${suffix}'
    location: location
    tags: tags
    retentionDays: logRetentionDays
    dailyQuotaGb: logDailyQuotaGb
    isolated: networkIsolation
    roleAssignments: [
      {
        principalId: identity.outputs.principalId
        role: monitoringMetricsPublisher
      }
    ]
  }
}

module network 'modules/network.bicep' = if (networkIsolation) {
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

module monitoringPrivateLink 'modules/monitoring-private-link.bicep' = if (networkIsolation) {
  name: 'monitoring-private-link'
  params: {
    name: 'ampls-${suffix}'
    location: location
    tags: tags
    workspaceResourceId: monitoring.outputs.workspaceResourceId
    componentResourceId: monitoring.outputs.componentResourceId
    subnetResourceId: network!.outputs.privateAccess.subnetResourceId
    zoneResourceIds: network!.outputs.monitorZoneResourceIds
  }
}

module vault 'modules/key-vault.bicep' = if (withVault) {
  name: 'key-vault'
  params: {
    name: 'kv-lucius-${token}'
    location: location
    tags: tags
    callbackKeys: callbackKeys
    webhookKeys: webhookKeys
    privateAccess: network.?outputs.privateAccess
    workspaceResourceId: monitoring.outputs.workspaceResourceId
    roleAssignments: [
      {
        principalId: identity.outputs.principalId
        role: keyVaultSecretsUser
      }
    ]
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

@description('Name of the Log Analytics workspace.')
output workspaceName string = monitoring.outputs.workspaceName

@description('Connection string of Application Insights.')
output applicationInsightsConnectionString string = monitoring.outputs.connectionString

@description('Settings of private endpoints. Null: no network isolation.')
output privateAccess privateAccessType? = network.?outputs.privateAccess

@description('Resource id of the app\'s subnet; empty: no isolation.')
output appSubnetResourceId string = network.?outputs.appSubnetResourceId ?? ''

@description('Resource id of the subnet for other resources; empty: no isolation.')
output serviceSubnetResourceId string = network.?outputs.serviceSubnetResourceId ?? ''

@description('URI of the secret with callback keys; empty: none.')
output callbackKeysUri string = vault.?outputs.callbackKeysUri ?? ''

@description('URI of the secret with webhook keys; empty: none.')
output webhookKeysUri string = vault.?outputs.webhookKeysUri ?? ''
