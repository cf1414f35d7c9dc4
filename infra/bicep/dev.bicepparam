using 'main.bicep'

// A small deployment, billed mostly by use, for development and trials. `azd up` uses this file (azure.yaml).

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'dev')
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
param operatorRunsServices = false
// `all`: each service of topology.json; `none`; or names, separated by commas
var services = readEnvironmentVariable('LUCIUS_PLATFORM_SERVICES', 'all')
param platformServices = services == 'all'
  ? null
  : map(filter(split(services, ','), name => !contains(['', 'none'], name)), name => { name: name })
param registryResourceId = readEnvironmentVariable('LUCIUS_REGISTRY_ID', '')
param serviceImageTag = readEnvironmentVariable('LUCIUS_SERVICE_TAG', '')

param serviceBusSku = 'Standard'
param appConfigurationSku = 'developer'
param durableBackend = readEnvironmentVariable('LUCIUS_DURABLE_BACKEND', 'DurableTaskScheduler')
param schedulerSku = 'Consumption'
param scale = {
  maximumInstances: 40
}

param alertEmails = filter(split(readEnvironmentVariable('LUCIUS_ALERT_EMAILS', ''), ','), email => !empty(email))
param actionGroupIds = filter(split(readEnvironmentVariable('LUCIUS_ALERT_ACTION_GROUPS', ''), ','), id => !empty(id))
param monthlyBudget = int(readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET', '0'))
param monthlyBudgetStart = readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET_START', '')
// above the cap, Azure drops logs until the daily reset; then app-down and sweeper-silent fire, and logs-capped names the reason
param logDailyQuotaGb = 1
