metadata name = 'Service Bus'
metadata description = 'The Service Bus namespace with the queues, topics, subscriptions and filters of topology.json. Each lane has a topic for directives and a topic for replies.'

import { privateAccessType, roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Name of the namespace, unique in Azure.')
@minLength(6)
@maxLength(50)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Tier. Private endpoints and messages over 256 KB need Premium.')
@allowed([
  'Standard'
  'Premium'
])
param skuName string = 'Standard'

@description('Optional. Messaging units of the Premium tier.')
@allowed([
  1
  2
  4
  8
  16
])
param capacity int = 1

@description('Optional. Roles on the namespace.')
param roleAssignments roleAssignmentType[] = []

@description('Optional. Settings of the private endpoint, which requires Premium. If absent, the public endpoint accepts identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

var topology = loadJsonContent('../topology.json')
var lanes = topology.lanes
var serviceCount = length(topology.services)

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: skuName
    tier: skuName
    capacity: skuName == 'Premium' ? capacity : null
  }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
    premiumMessagingPartitions: skuName == 'Premium' ? 1 : null
    publicNetworkAccess: privateAccess == null ? 'Enabled' : 'Disabled'
  }
}

// Duplicate detection can only be enabled at creation. The window is longer than all waits after an unconfirmed send. Service Bus drops expired
// directives, since the ledger has them, and dead letters would fill the topic.
@batchSize(8)
resource directiveTopics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = [
  for lane in range(0, lanes): {
    parent: namespace
    name: '${topology.directives.prefix}${lane}'
    properties: {
      requiresDuplicateDetection: true
      duplicateDetectionHistoryTimeWindow: topology.directives.duplicateDetectionWindow
      maxSizeInMegabytes: topology.directives.maxSizeInMegabytes
      enableBatchedOperations: true
    }
  }
]

@batchSize(8)
resource serviceSubscriptions 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' = [
  for index in range(0, lanes * serviceCount): {
    parent: directiveTopics[index / serviceCount]
    name: topology.services[index % serviceCount].name
    properties: {
      lockDuration: topology.directives.lockDuration
      maxDeliveryCount: topology.directives.maxDeliveryCount
      deadLetteringOnMessageExpiration: topology.directives.deadLetteringOnMessageExpiration
      deadLetteringOnFilterEvaluationExceptions: true
      enableBatchedOperations: true
    }
  }
]

// A new subscription accepts every message, by a true rule named $Default. This rule has the same name and replaces it.
@batchSize(8)
resource serviceRules 'Microsoft.ServiceBus/namespaces/topics/subscriptions/rules@2024-01-01' = [
  for index in range(0, lanes * serviceCount): {
    parent: serviceSubscriptions[index]
    name: '$Default'
    properties: {
      filterType: 'CorrelationFilter'
      correlationFilter: {
        properties: {
          step_type: topology.services[index % serviceCount].stepType
        }
      }
    }
  }
]

// Messages that make the app check waiting jobs, breakers, allocations and bulk operations. The sweeper replaces a lost message.
resource admissionQueue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = {
  parent: namespace
  name: topology.admission.queue
  properties: {
    requiresDuplicateDetection: false
    lockDuration: topology.admission.lockDuration
    maxDeliveryCount: topology.admission.maxDeliveryCount
    defaultMessageTimeToLive: topology.admission.defaultMessageTimeToLive
    deadLetteringOnMessageExpiration: false
    enableBatchedOperations: true
  }
}

// The app receives hints in batches, whose locks the host does not renew. The sweeper finds the events of a lost hint.
resource hintsQueue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = {
  parent: namespace
  name: topology.hints.queue
  properties: {
    requiresDuplicateDetection: false
    lockDuration: topology.hints.lockDuration
    maxDeliveryCount: topology.hints.maxDeliveryCount
    defaultMessageTimeToLive: topology.hints.defaultMessageTimeToLive
    deadLetteringOnMessageExpiration: false
    enableBatchedOperations: true
  }
}

// Tries of webhook deliveries. The rows of the deliveries are authoritative, so a repeated message has no effect. The sweeper sends
// lost messages again.
resource webhooksQueue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = {
  parent: namespace
  name: topology.webhooks.queue
  properties: {
    requiresDuplicateDetection: false
    lockDuration: topology.webhooks.lockDuration
    maxDeliveryCount: topology.webhooks.maxDeliveryCount
    defaultMessageTimeToLive: topology.webhooks.defaultMessageTimeToLive
    deadLetteringOnMessageExpiration: false
    enableBatchedOperations: true
  }
}

// Teams that read the topic create subscriptions. Without a subscription the topic keeps no message. `tell` sends an event again
// after a crash, at most minutes later.
resource eventsTopic 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = {
  parent: namespace
  name: topology.events.topic
  properties: {
    requiresDuplicateDetection: true
    duplicateDetectionHistoryTimeWindow: topology.events.duplicateDetectionWindow
    maxSizeInMegabytes: topology.events.maxSizeInMegabytes
    defaultMessageTimeToLive: topology.events.defaultMessageTimeToLive
    enableBatchedOperations: true
  }
}

// The queue also exists without forwarding: the sweeper applies messages that were in the queue when forwarding stopped.
resource repliesQueue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = {
  parent: namespace
  name: topology.replies.queue
  properties: {
    requiresDuplicateDetection: false
    maxSizeInMegabytes: topology.replies.maxSizeInMegabytes
    lockDuration: topology.replies.lockDuration
    maxDeliveryCount: topology.replies.maxDeliveryCount
    enableBatchedOperations: true
  }
}

@batchSize(8)
resource replyTopics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = [
  for lane in range(0, lanes): {
    parent: namespace
    name: '${topology.replies.prefix}${lane}'
    properties: {
      requiresDuplicateDetection: false
      maxSizeInMegabytes: topology.replies.maxSizeInMegabytes
      enableBatchedOperations: true
    }
  }
]

resource roles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for assignment in roleAssignments: {
    name: guid(namespace.id, assignment.principalId, assignment.role)
    scope: namespace
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
    targetResourceId: namespace.id
    groupId: 'namespace'
    zoneResourceIds: [
      privateAccess!.zones.serviceBus
    ]
  }
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: namespace
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      {
        categoryGroup: 'allLogs'
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

@description('Resource id of the namespace.')
output resourceId string = namespace.id

@description('Name of the namespace.')
output name string = namespace.name

@description('Host name that clients connect to.')
output fullyQualifiedNamespace string = split(split(namespace.properties.serviceBusEndpoint, '/')[2], ':')[0]
