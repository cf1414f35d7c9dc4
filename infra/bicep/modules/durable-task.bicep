metadata name = 'Durable Task Scheduler'
metadata description = 'The managed backend of Durable Functions: a scheduler and a task hub. Managed identity is the only way in.'

import { privateAccessType, roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Name of the scheduler; that of its private endpoint is four characters longer, and ends at 64.')
@minLength(3)
@maxLength(60)
param name string

@description('Required. Region; it must be one of the scheduler\'s.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Consumption is paid by the action, Dedicated by the unit.')
@allowed([
  'Consumption'
  'Dedicated'
])
param skuName string = 'Consumption'

@description('Optional. Units of the Dedicated tier; three make it redundant over zones.')
@minValue(1)
@maxValue(3)
param capacity int = 1

@description('Optional. Name of the task hub: one for each environment, never shared by two apps.')
@minLength(3)
@maxLength(64)
param taskHubName string = 'lucius'

@description('Optional. Days after which the scheduler purges orchestrations that ended. The app purges too, once it needs them no more; this is the net below.')
@minValue(1)
param retentionDays int = 30

@description('Optional. Addresses and ranges that may reach the public endpoint.')
@minLength(1)
param ipAllowlist string[] = [
  '0.0.0.0/0'
]

@description('Optional. How the private endpoint is made. Absent: the public endpoint is open to identities with a role.')
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

@description('Address of the scheduler.')
output endpoint string = scheduler.properties.endpoint

@description('Name of the task hub.')
output taskHubName string = taskHub.name
