metadata name = 'Durable Task Scheduler'
metadata description = 'The managed backend of Durable Functions: a scheduler and a task hub, with access by managed identity only.'

import { privateAccessType, roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Name of the scheduler, at most 60 characters, because the name of the private endpoint is four characters longer.')
@minLength(3)
@maxLength(60)
param name string

@description('Required. Region, which must offer the Durable Task Scheduler.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Tier of the scheduler. Azure bills Consumption per action and Dedicated per unit.')
@allowed([
  'Consumption'
  'Dedicated'
])
param skuName string = 'Consumption'

@description('Optional. Units of a Dedicated scheduler. Three units make the scheduler zone-redundant.')
@minValue(1)
@maxValue(3)
param capacity int = 1

@description('Optional. Name of the task hub. Two apps must not share a task hub.')
@minLength(3)
@maxLength(64)
param taskHubName string = 'lucius'

@description('Optional. Days from the completion of an orchestration until the scheduler purges the orchestration. The app normally purges orchestrations earlier.')
@minValue(1)
param retentionDays int = 30

@description('Optional. IP addresses and ranges with access to the public endpoint.')
@minLength(1)
param ipAllowlist string[] = [
  '0.0.0.0/0'
]

@description('Optional. Settings of the private endpoint. If absent, the public endpoint accepts identities with a role.')
param privateAccess privateAccessType?

@description('Optional. Roles on the task hub.')
param roleAssignments roleAssignmentType[] = []

resource scheduler 'Microsoft.DurableTask/schedulers@2026-02-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    ipAllowlist: ipAllowlist
    publicNetworkAccess: privateAccess == null ? 'Enabled' : 'Disabled'
    sku: {
      name: skuName
      capacity: skuName == 'Dedicated' ? capacity : null
    }
  }
}

resource taskHub 'Microsoft.DurableTask/schedulers/taskHubs@2026-02-01' = {
  parent: scheduler
  name: taskHubName
}

resource retention 'Microsoft.DurableTask/schedulers/retentionPolicies@2026-02-01' = {
  parent: scheduler
  name: 'default'
  properties: {
    retentionPolicies: [
      {
        retentionPeriodInDays: retentionDays
      }
    ]
  }
}

resource roles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for assignment in roleAssignments: {
    name: guid(taskHub.id, assignment.principalId, assignment.role)
    scope: taskHub
    properties: {
      principalId: assignment.principalId
      principalType: assignment.?principalType ?? 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', assignment.role)
    }
  }
]

module privateEndpoint 'private-endpoint.bicep' = if (privateAccess != null) {
  name: 'pep-${name}'
  params: {
    name: 'pep-${name}'
    location: location
    tags: tags
    subnetResourceId: privateAccess!.subnetResourceId
    targetResourceId: scheduler.id
    groupId: 'scheduler'
    zoneResourceIds: [
      privateAccess!.zones.durableTask
    ]
  }
}

@description('Resource id of the scheduler.')
output resourceId string = scheduler.id

@description('Endpoint of the scheduler.')
output endpoint string = scheduler.properties.endpoint

@description('Name of the task hub.')
output taskHubName string = taskHub.name
