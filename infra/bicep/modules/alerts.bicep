metadata name = 'Alerts'
metadata description = 'What an operator is woken by: dead letters, reply backlog, stuck jobs, failure rate, throttling. Nobody is told where nobody is named.'

import { tagsType } from 'shapes.bicep'

@description('Required. Start of the names of the alert rules.')
param namePrefix string

@description('Required. Name of the action group.')
param actionGroupName string

@description('Required. Region of the log alerts.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Who is told by mail.')
param emails string[] = []

@description('Required. Resource id of the Log Analytics workspace.')
param workspaceResourceId string

@description('Required. Resource id of the Service Bus namespace.')
param serviceBusResourceId string

@description('Required. Resource id of the ledger\'s storage account.')
param ledgerResourceId string

@description('Optional. When the rules fire.')
param thresholds thresholdsType = {}

@export()
@description('When the rules fire.')
@sealed()
type thresholdsType = {
  @description('Optional. Replies that wait on one lane for fifteen minutes. Default: 500.')
  @minValue(1)
  replyBacklog: int?

  @description('Optional. Age in seconds of the oldest directive that no service has taken up. After ACK timeout and lease (930 by default) the attempt counts, so that more is never seen. Default: 300.')
  @minValue(60)
  @maxValue(900)
  stuckSeconds: int?

  @description('Optional. Percent of the jobs of fifteen minutes that failed. Default: 10.')
  @minValue(1)
  @maxValue(100)
  failurePercent: int?

  @description('Optional. Failed jobs of fifteen minutes from which on the percentage counts. Default: 2.')
  @minValue(1)
  failedJobs: int?

  @description('Optional. Throttled requests in five minutes, of the bus or of the ledger. Default: 20.')
  @minValue(0)
  throttled: int?

  @description('Optional. Calls in fifteen minutes that a dependency did not answer. Default: 20.')
  @minValue(0)
  dependencyFaults: int?
}

var topology = loadJsonContent('../topology.json')
var directiveTopics = map(range(0, topology.lanes), lane => '${topology.directives.prefix}${lane}')
var replyTopics = map(range(0, topology.lanes), lane => '${topology.replies.prefix}${lane}')

var metricAlerts = [
  {
    name: 'dead-directives'
    description: 'A platform service lets directives die: look at its log and at the dead-letter queue of its subscription (docs/operations.md).'
    severity: 2
    scope: serviceBusResourceId
    namespace: 'Microsoft.ServiceBus/namespaces'
    metric: 'DeadletteredMessages'
    aggregation: 'Maximum'
    threshold: 0
    window: 'PT15M'
    dimension: 'EntityName'
    values: directiveTopics
  }
  {
    name: 'dead-replies'
    description: 'Replies stay dead: the sweeper takes them up each minute, so that it does not run or cannot (docs/operations.md).'
    severity: 2
    scope: serviceBusResourceId
    namespace: 'Microsoft.ServiceBus/namespaces'
    metric: 'DeadletteredMessages'
    aggregation: 'Minimum'
    threshold: 0
    window: 'PT15M'
    dimension: 'EntityName'
    values: replyTopics
  }
  {
    name: 'reply-backlog'
    description: 'Replies wait on a lane: the reply functions do not keep up, or do not run.'
    severity: 2
    scope: serviceBusResourceId
    namespace: 'Microsoft.ServiceBus/namespaces'
    metric: 'ActiveMessages'
    aggregation: 'Minimum'
    threshold: thresholds.?replyBacklog ?? 500
    window: 'PT15M'
    dimension: 'EntityName'
    values: replyTopics
  }
  {
    name: 'bus-throttled'
    description: 'Service Bus refuses requests because of load: more messaging units, or another namespace (docs/scale.md).'
    severity: 2
    scope: serviceBusResourceId
    namespace: 'Microsoft.ServiceBus/namespaces'
    metric: 'ThrottledRequests'
    aggregation: 'Total'
    threshold: thresholds.?throttled ?? 20
    window: 'PT5M'
    dimension: 'EntityName'
    values: [
      '*'
    ]
  }
  {
    name: 'ledger-throttled'
    description: 'The ledger\'s tables refuse requests because of load: another account (docs/scale.md).'
    severity: 1
    scope: '${ledgerResourceId}/tableServices/default'
    namespace: 'Microsoft.Storage/storageAccounts/tableServices'
    metric: 'Transactions'
    aggregation: 'Total'
    threshold: thresholds.?throttled ?? 20
    window: 'PT5M'
    dimension: 'ResponseType'
    values: [
      'ClientThrottlingError'
      'ServerBusyError'
      'ClientAccountRequestThrottlingError'
    ]
  }
]

var logAlerts = [
  {
    name: 'stuck-jobs'
    description: 'Directives wait for their ACK for too long: a platform service is away, or does not keep up.'
    severity: 2
    query: loadTextContent('../queries/stuck-dispatch.kql')
    measure: 'Oldest'
    aggregation: 'Maximum'
    operator: 'GreaterThan'
    threshold: thresholds.?stuckSeconds ?? 300
    window: 'PT15M'
    dimension: ''
  }
  {
    name: 'sweeper-silent'
    description: 'The sweeper has not ended a pass for half an hour: what is left half done stays so.'
    severity: 1
    query: loadTextContent('../queries/sweeper-silent.kql')
    measure: 'Passes'
    aggregation: 'Total'
    operator: 'LessThan'
    threshold: 1
    window: 'PT30M'
    dimension: ''
  }
  {
    name: 'failure-rate'
    description: 'Too many jobs fail for good; the query failures-by-reason says why.'
    severity: 2
    query: replace(loadTextContent('../queries/failure-rate.kql'), 'Failed >= 2', 'Failed >= ${thresholds.?failedJobs ?? 2}')
    measure: 'FailedPercent'
    aggregation: 'Maximum'
    operator: 'GreaterThan'
    threshold: thresholds.?failurePercent ?? 10
    window: 'PT15M'
    dimension: ''
  }
  {
    name: 'dependency-faults'
    description: 'The ledger, the bus, the orchestration\'s backend or App Configuration does not answer the app.'
    severity: 2
    query: loadTextContent('../queries/dependency-faults.kql')
    measure: 'Faults'
    aggregation: 'Total'
    operator: 'GreaterThan'
    threshold: thresholds.?dependencyFaults ?? 20
    window: 'PT15M'
    dimension: 'Dependency'
  }
]

resource actionGroup 'Microsoft.Insights/actionGroups@2023-01-01' = {
  name: actionGroupName
  location: 'global'
  tags: tags
  properties: {
    enabled: true
    groupShortName: 'lucius'
    emailReceivers: [
      for (email, index) in emails: {
        name: 'operator-${index}'
        emailAddress: email
        useCommonAlertSchema: true
      }
    ]
  }
}

resource metricRules 'Microsoft.Insights/metricAlerts@2018-03-01' = [
  for alert in metricAlerts: {
    name: '${namePrefix}-${alert.name}'
    location: 'global'
    tags: tags
    properties: {
      description: alert.description
      severity: alert.severity
      enabled: true
      autoMitigate: true
      scopes: [
        alert.scope
      ]
      evaluationFrequency: 'PT5M'
      windowSize: alert.window
      criteria: {
        'odata.type': 'Microsoft.Azure.Monitor.SingleResourceMultipleMetricCriteria'
        allOf: [
          {
            name: alert.metric
            criterionType: 'StaticThresholdCriterion'
            metricNamespace: alert.namespace
            metricName: alert.metric
            timeAggregation: alert.aggregation
            operator: 'GreaterThan'
            threshold: alert.threshold
            dimensions: [
              {
                name: alert.dimension
                operator: 'Include'
                values: alert.values
              }
            ]
          }
        ]
      }
      actions: [
        {
          actionGroupId: actionGroup.id
        }
      ]
    }
  }
]

resource logRules 'Microsoft.Insights/scheduledQueryRules@2023-12-01' = [
  for alert in logAlerts: {
    name: '${namePrefix}-${alert.name}'
    location: location
    tags: tags
    kind: 'LogAlert'
    properties: {
      displayName: '${namePrefix}-${alert.name}'
      description: alert.description
      severity: alert.severity
      enabled: true
      autoMitigate: true
      scopes: [
        workspaceResourceId
      ]
      evaluationFrequency: 'PT5M'
      windowSize: alert.window
      // the tables come to be with the first telemetry, after the rules
      skipQueryValidation: true
      criteria: {
        allOf: [
          {
            query: alert.query
            metricMeasureColumn: alert.measure
            timeAggregation: alert.aggregation
            operator: alert.operator
            threshold: alert.threshold
            dimensions: empty(alert.dimension)
              ? []
              : [
                  {
                    name: alert.dimension
                    operator: 'Include'
                    values: [
                      '*'
                    ]
                  }
                ]
            failingPeriods: {
              numberOfEvaluationPeriods: 1
              minFailingPeriodsToAlert: 1
            }
          }
        ]
      }
      actions: {
        actionGroups: [
          actionGroup.id
        ]
      }
    }
  }
]

@description('Resource id of the action group.')
output actionGroupResourceId string = actionGroup.id
