using 'main.bicep'

// The least that is a whole LUCIUS: nothing is paid by the hour but Service Bus. No alerts, no store: the packaged protocols rule.

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'minimal')
param location = readEnvironmentVariable('AZURE_LOCATION', 'westeurope')
// azd reads this file before its hooks have made the app registration; no token has this audience
param authAudience = readEnvironmentVariable('LUCIUS_AUTH_AUDIENCE', 'not-registered-yet')

param operatorPrincipalId = readEnvironmentVariable('AZURE_PRINCIPAL_ID', '')
param operatorPrincipalType = readEnvironmentVariable('AZURE_PRINCIPAL_TYPE', 'User')
param smokePrincipalId = readEnvironmentVariable('LUCIUS_SMOKE_PRINCIPAL_ID', '')
param operatorRunsServices = true
param platformServices = []

param durableBackend = readEnvironmentVariable('LUCIUS_DURABLE_BACKEND', 'AzureStorage')
param appConfiguration = false
param alerts = false
param logDailyQuotaGb = 1
param scale = {
  instanceMemoryMB: 512
  maximumInstances: 40
}
