using 'main.bicep'

// The smallest complete LUCIUS: Service Bus and one small instance, always ready for orchestrations, are billed by the hour.
// The deployment has no alerts and no App Configuration store, so the packaged protocols are in effect.

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'minimal')
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
param signHeads = readEnvironmentVariable('LUCIUS_SIGN_HEADS', '') == 'true'

param operatorPrincipalId = readEnvironmentVariable('AZURE_PRINCIPAL_ID', '')
param operatorPrincipalType = readEnvironmentVariable('AZURE_PRINCIPAL_TYPE', 'User')
param smokePrincipalId = readEnvironmentVariable('LUCIUS_SMOKE_PRINCIPAL_ID', '')
param operatorRunsServices = true
// `all`: each service of topology.json; `none`; or names, separated by commas
var services = readEnvironmentVariable('LUCIUS_PLATFORM_SERVICES', 'none')
param platformServices = services == 'all'
  ? null
  : map(filter(split(services, ','), name => !contains(['', 'none'], name)), name => { name: name })
param registryResourceId = readEnvironmentVariable('LUCIUS_REGISTRY_ID', '')
param serviceImageTag = readEnvironmentVariable('LUCIUS_SERVICE_TAG', '')

param durableBackend = readEnvironmentVariable('LUCIUS_DURABLE_BACKEND', 'AzureStorage')
param appConfiguration = false
param alerts = false
// without alerts, these addresses get budget notifications only
param alertEmails = filter(split(readEnvironmentVariable('LUCIUS_ALERT_EMAILS', ''), ','), email => !empty(email))
param monthlyBudget = int(readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET', '0'))
param monthlyBudgetStart = readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET_START', '')
param logDailyQuotaGb = 1
param scale = {
  instanceMemoryMB: 512
  maximumInstances: 40
}
