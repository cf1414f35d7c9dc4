using 'main.bicep'

// The least that is a whole LUCIUS: paid by the hour are Service Bus and one small instance, always ready for orchestrations.
// No alerts, no store: the packaged protocols rule.

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'minimal')
param location = readEnvironmentVariable('AZURE_LOCATION', 'westeurope')
// azd reads this file before its hooks have made the app registration; no token has this audience
param authAudience = readEnvironmentVariable('LUCIUS_AUTH_AUDIENCE', 'not-registered-yet')
param dashboardClientId = readEnvironmentVariable('LUCIUS_DASHBOARD_CLIENT_ID', '')
param authTenants = json(readEnvironmentVariable('LUCIUS_AUTH_TENANTS', '{}'))
param callbackKeys = readEnvironmentVariable('LUCIUS_CALLBACK_KEYS', '')
param enableCallbacks = readEnvironmentVariable('LUCIUS_CALLBACKS', '') == 'true'
param webhookKeys = readEnvironmentVariable('LUCIUS_WEBHOOK_KEYS', '')
param enableWebhooks = readEnvironmentVariable('LUCIUS_WEBHOOKS', '') == 'true'

param operatorPrincipalId = readEnvironmentVariable('AZURE_PRINCIPAL_ID', '')
param operatorPrincipalType = readEnvironmentVariable('AZURE_PRINCIPAL_TYPE', 'User')
param smokePrincipalId = readEnvironmentVariable('LUCIUS_SMOKE_PRINCIPAL_ID', '')
param operatorRunsServices = true
param platformServices = []

param durableBackend = readEnvironmentVariable('LUCIUS_DURABLE_BACKEND', 'AzureStorage')
param appConfiguration = false
param alerts = false
// without alerts, these are told of the budget only
param alertEmails = filter(split(readEnvironmentVariable('LUCIUS_ALERT_EMAILS', ''), ','), email => !empty(email))
param monthlyBudget = int(readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET', '0'))
param monthlyBudgetStart = readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET_START', '')
param logDailyQuotaGb = 1
param scale = {
  instanceMemoryMB: 512
  maximumInstances: 40
}
