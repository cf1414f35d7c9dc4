metadata name = 'Observability'
metadata description = 'Alert rules, saved queries, the workbook of the queries, and the budget.'

import { thresholdsType } from 'modules/alerts.bicep'
import { tagsType } from 'modules/shapes.bicep'

@description('Required. Name of the environment, which is part of the names of the alert rules.')
param environmentName string

@description('Required. Suffix of the resource names.')
@minLength(22)
@maxLength(41)
param suffix string

@description('Required. Region.')
param location string

@description('Required. Tags of the resources.')
param tags tagsType

@description('Required. `true` creates alert rules.')
param alerts bool

@description('Required. Thresholds of the alert rules.')
param alertThresholds thresholdsType

@description('Required. `true` adds the alert rules of signed heads and anchors.')
param signHeads bool

@description('Required. Email addresses that receive alerts and budget notifications.')
param alertEmails string[]

@description('Required. Resource ids of existing action groups that also receive alerts.')
param actionGroupIds string[]

@description('Required. Monthly budget in the billing currency. 0 means no budget. A budget above 0 requires alertEmails and monthlyBudgetStart.')
@minValue(0)
param monthlyBudget int

@description('Required. First day of the month in which the budget is created, for example 2026-11-01. Azure refuses to change this date.')
param monthlyBudgetStart string

@description('Required. `true` if this template creates the workspace.')
param ownsWorkspace bool

@description('Required. Resource id of the Log Analytics workspace.')
param workspaceResourceId string

@description('Required. Resource id of the Service Bus namespace.')
param serviceBusResourceId string

@description('Required. Resource id of the ledger\'s account.')
param ledgerResourceId string

module alertRules 'modules/alerts.bicep' = if (alerts) {
  name: 'alerts'
  params: {
    namePrefix: 'lucius-${environmentName}'
    actionGroupName: 'ag-${suffix}'
    location: location
    tags: tags
    emails: alertEmails
    actionGroupIds: actionGroupIds
    thresholds: alertThresholds
    signHeads: signHeads
    workspaceResourceId: workspaceResourceId
    serviceBusResourceId: serviceBusResourceId
    ledgerResourceId: ledgerResourceId
  }
}

module insights 'modules/insights.bicep' = {
  name: 'insights'
  params: {
    workspaceResourceId: workspaceResourceId
    savesQueries: ownsWorkspace
    location: location
    tags: tags
    displayName: 'LUCIUS ${environmentName}'
  }
}

module budget 'modules/budget.bicep' = if (monthlyBudget > 0) {
  name: 'budget'
  params: {
    name: 'lucius-${environmentName}'
    amount: max(monthlyBudget, 1)
    emails: alertEmails
    startDate: monthlyBudgetStart
  }
}
