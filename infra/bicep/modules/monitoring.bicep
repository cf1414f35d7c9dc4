metadata name = 'Monitoring'
metadata description = 'Log Analytics and Application Insights. Only identities can write and read.'

import { roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Resource id of an existing Log Analytics workspace. If empty, the template creates a workspace.')
param existingWorkspaceResourceId string

@description('Required. Name of the new Log Analytics workspace.')
@minLength(4)
@maxLength(63)
param workspaceName string

@description('Required. Name of the Application Insights resource.')
param componentName string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Retention of logs in days, in a new workspace.')
@minValue(30)
@maxValue(730)
param retentionDays int = 30

@description('Optional. Maximum log ingestion per day in GB, in a new workspace. -1 means no limit.')
@minValue(-1)
param dailyQuotaGb int = -1

@description('Optional. Roles on the Application Insights resource.')
param roleAssignments roleAssignmentType[] = []

@description('Optional. `true` accepts telemetry over private endpoints only.')
param isolated bool = false

var workspaceId = empty(existingWorkspaceResourceId) ? workspace.id : existingWorkspaceResourceId

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-07-01' = if (empty(existingWorkspaceResourceId)) {
  name: workspaceName
  location: location
  tags: tags
  properties: {
    sku: {
      name: 'PerGB2018'
    }
    retentionInDays: retentionDays
    workspaceCapping: {
      dailyQuotaGb: dailyQuotaGb
    }
    features: {
      disableLocalAuth: true
      enableLogAccessUsingOnlyResourcePermissions: true
    }
    publicNetworkAccessForIngestion: isolated ? 'Disabled' : 'Enabled'
    publicNetworkAccessForQuery: 'Enabled'
  }
}

resource component 'Microsoft.Insights/components@2020-02-02' = {
  name: componentName
  location: location
  tags: tags
  kind: 'web'
  properties: {
    Application_Type: 'web'
    WorkspaceResourceId: workspaceId
    DisableLocalAuth: true
    publicNetworkAccessForIngestion: isolated ? 'Disabled' : 'Enabled'
    publicNetworkAccessForQuery: 'Enabled'
  }
}

resource roles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for assignment in roleAssignments: {
    name: guid(component.id, assignment.principalId, assignment.role)
    scope: component
    properties: {
      principalId: assignment.principalId
      principalType: assignment.?principalType ?? 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', assignment.role)
    }
  }
]

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = if (empty(existingWorkspaceResourceId)) {
  name: 'to-log-analytics'
  scope: workspace
  properties: {
    workspaceId: workspace.id
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

@description('Resource id of the workspace.')
output workspaceResourceId string = workspaceId

@description('Resource id of the Application Insights resource.')
output componentResourceId string = component.id

@description('Connection string of Application Insights. The string alone grants no access, because local authentication is off.')
output connectionString string = component.properties.ConnectionString
