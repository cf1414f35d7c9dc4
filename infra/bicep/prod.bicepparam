using 'main.bicep'

// An isolated, zone-redundant deployment with warm instances and alerts. The pipeline uses this file for the environment `prod`.

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'prod')
param location = readEnvironmentVariable('AZURE_LOCATION', 'westeurope')
// an existing resource group, which `azd down` does not delete (docs/guides/own-resources.md)
var ownGroup = readEnvironmentVariable('LUCIUS_RESOURCE_GROUP', '')
param resourceGroupName = ownGroup
param existingResourceGroup = !empty(ownGroup)
param workspaceResourceId = readEnvironmentVariable('LUCIUS_WORKSPACE_ID', '')
// azd reads this file before the hooks have created the app registration; no token has this placeholder as its audience
param authAudience = readEnvironmentVariable('LUCIUS_AUTH_AUDIENCE', 'not-registered-yet')
param dashboardClientId = readEnvironmentVariable('LUCIUS_DASHBOARD_CLIENT_ID', '')
param authTenants = json(readEnvironmentVariable('LUCIUS_AUTH_TENANTS', '{}'))
param enableCallbacks = readEnvironmentVariable('LUCIUS_CALLBACKS', '') == 'true'
param enableWebhooks = readEnvironmentVariable('LUCIUS_WEBHOOKS', '') == 'true'
param keyVault = readEnvironmentVariable('LUCIUS_VAULT', '') == 'true'
param vaultKeys = readEnvironmentVariable('LUCIUS_KEYS', '')
param signHeads = true
// true is irreversible: the account of the anchors cannot be deleted for 400 days after the last anchor
param lockAnchors = false

param operatorPrincipalId = readEnvironmentVariable('AZURE_PRINCIPAL_ID', '')
param operatorPrincipalType = readEnvironmentVariable('AZURE_PRINCIPAL_TYPE', 'ServicePrincipal')
param smokePrincipalId = readEnvironmentVariable('LUCIUS_SMOKE_PRINCIPAL_ID', '')
param operatorRunsServices = false
// `all`: each service of topology.json; `none`; or names, separated by commas
var services = readEnvironmentVariable('LUCIUS_PLATFORM_SERVICES', 'all')
param platformServices = services == 'all'
  ? null
  : map(filter(split(services, ','), name => !contains(['', 'none'], name)), name => { name: name })
param registryResourceId = readEnvironmentVariable('LUCIUS_REGISTRY_ID', '')
param serviceImageTag = readEnvironmentVariable('LUCIUS_SERVICE_TAG', '')

param networkIsolation = true
// existing subnets and private DNS zones; if they are unset, the template creates a network and zones
var appSubnet = readEnvironmentVariable('LUCIUS_APP_SUBNET_ID', '')
param ownNetwork = empty(appSubnet)
  ? null
  : {
      appSubnetResourceId: appSubnet
      endpointSubnetResourceId: readEnvironmentVariable('LUCIUS_ENDPOINT_SUBNET_ID', '')
      containerSubnetResourceId: readEnvironmentVariable('LUCIUS_CONTAINER_SUBNET_ID', '')
    }
param privateDnsZones = readEnvironmentVariable('LUCIUS_PRIVATE_DNS_ZONES', '')
param serviceBusSku = 'Premium'
param serviceBusCapacity = 1
// false: the app can send and receive. true makes the app owner of the namespace, so it can delete topics.
// A reply function then gets instances in proportion to its replies, not one by one. Choose true only for
// loads that multiply within minutes.
param targetBasedScaling = false
param storageSku = 'Standard_ZRS'
param softDeleteDays = 30
param workspaceRetentionDays = 30
param appConfigurationSku = 'standard'
param durableBackend = readEnvironmentVariable('LUCIUS_DURABLE_BACKEND', 'DurableTaskScheduler')
param schedulerSku = 'Dedicated'
param schedulerCapacity = 3
// With zone redundancy, Flex Consumption keeps two instances of each scale group ready and bills them. HTTP,
// orchestrations, replies, admission, the sweeper, the writer of public events and the hourly deletion of expired rows are
// 7 groups, 14 instances, about 294 USD a month before the first job. With replies = 'Lanes' they are 22 groups; with LUCIUS_ZONE_REDUNDANT=false 7 instances,
// about 147 USD. Only some regions offer zone redundancy: `az functionapp list-flexconsumption-locations
// --zone-redundant`.
param scale = {
  zoneRedundant: readEnvironmentVariable('LUCIUS_ZONE_REDUNDANT', 'true') == 'true'
  maximumInstances: 200
  alwaysReadyHttp: 2
  alwaysReadyDurable: 2
  alwaysReadyReplies: 1
  alwaysReadyAdmission: 1
  alwaysReadyTell: 1
  alwaysReadyDeliver: 1
}

// Maximum active jobs: 100 per tenant, 500 of all tenants; further jobs wait (docs/guides/quotas.md).
param tuning = {
  LUCIUS_MAX_INFLIGHT: '500'
  LUCIUS_MAX_INFLIGHT_PER_TENANT: '100'
  LUCIUS_OVERFLOW: 'stage'
  LUCIUS_EXPORT_DAYS: '14'
}

param logRetentionDays = 90
param alertEmails = filter(split(readEnvironmentVariable('LUCIUS_ALERT_EMAILS', ''), ','), email => !empty(email))
param actionGroupIds = filter(split(readEnvironmentVariable('LUCIUS_ALERT_ACTION_GROUPS', ''), ','), id => !empty(id))
param monthlyBudget = int(readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET', '0'))
param monthlyBudgetStart = readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET_START', '')
