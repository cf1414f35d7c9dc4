using 'main.bicep'

// Isolated, redundant over zones, warm, and told of. The pipeline takes this file for the environment `prod`.

param environmentName = readEnvironmentVariable('AZURE_ENV_NAME', 'prod')
param location = readEnvironmentVariable('AZURE_LOCATION', 'westeurope')
// azd reads this file before its hooks have made the app registration; no token has this audience
param authAudience = readEnvironmentVariable('LUCIUS_AUTH_AUDIENCE', 'not-registered-yet')
param callbackKeys = readEnvironmentVariable('LUCIUS_CALLBACK_KEYS', '')

param operatorPrincipalId = readEnvironmentVariable('AZURE_PRINCIPAL_ID', '')
param operatorPrincipalType = readEnvironmentVariable('AZURE_PRINCIPAL_TYPE', 'ServicePrincipal')
param operatorRunsServices = false

param networkIsolation = true
param serviceBusSku = 'Premium'
param serviceBusCapacity = 1
param storageSku = 'Standard_ZRS'
param softDeleteDays = 30
param workspaceRetentionDays = 30
param appConfigurationSku = 'standard'
param durableBackend = readEnvironmentVariable('LUCIUS_DURABLE_BACKEND', 'DurableTaskScheduler')
param schedulerSku = 'Dedicated'
param schedulerCapacity = 3
param scale = {
  zoneRedundant: true
  maximumInstances: 200
  alwaysReadyHttp: 2
  alwaysReadyDurable: 2
  alwaysReadyReplies: 1
}

param logRetentionDays = 90
param alertEmails = filter(split(readEnvironmentVariable('LUCIUS_ALERT_EMAILS', ''), ','), email => !empty(email))
param monthlyBudget = int(readEnvironmentVariable('LUCIUS_MONTHLY_BUDGET', '0'))
