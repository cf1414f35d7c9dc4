metadata name = 'Alerts'
metadata description = 'Alert rules (docs/guides/operations.md, Alerts). Without actionGroupIds and emails, alerts show in the portal only.'

import { tagsType } from 'shapes.bicep'

@description('Required. Prefix of the names of the alert rules.')
param namePrefix string

@description('Required. Name of the action group, which the template creates if there are email addresses.')
param actionGroupName string

@description('Required. Region of the log alerts.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Email addresses that receive alerts.')
param emails string[] = []

@description('Optional. Resource ids of existing action groups that also receive alerts, for example by webhook, pager or chat.')
param actionGroupIds string[] = []

@description('Required. Resource id of the Log Analytics workspace.')
param workspaceResourceId string

@description('Required. Resource id of the Service Bus namespace.')
param serviceBusResourceId string

@description('Required. Resource id of the ledger\'s storage account.')
param ledgerResourceId string

@description('Optional. `true` adds the alert rules of signed heads and anchors.')
param signHeads bool = false

@description('Optional. Thresholds of the rules.')
param thresholds thresholdsType = {}

@export()
@description('Thresholds of the rules. A rule fires if the measured value is above the threshold. The rule of `failurePercent` also needs `failedJobs` failed jobs.')
@sealed()
type thresholdsType = {
  @description('Optional. Lowest number of waiting replies in fifteen minutes, on one lane or in the queue of all lanes. Default: 500.')
  @minValue(1)
  replyBacklog: int?

  @description('Optional. Age in seconds of the oldest directive without an ACK. Use at most the ACK timeout plus the lease, minus 120 seconds. Default: 300. Maximum: 600.')
  @minValue(60)
  @maxValue(600)
  stuckSeconds: int?

  @description('Optional. Age in seconds of the oldest QUEUED job. Default: 600.')
  @minValue(60)
  @maxValue(1800)
  queuedSeconds: int?

  @description('Optional. Age in seconds of the oldest job that waits for a quota. Default: 21600.')
  @minValue(60)
  waitSeconds: int?

  @description('Optional. Age in seconds of the oldest public event that waits for the topic. Default: 900.')
  @minValue(60)
  unsentSeconds: int?

  @description('Optional. Percentage of permanent failures among the jobs that ended in fifteen minutes. Default: 10.')
  @minValue(1)
  @maxValue(99)
  failurePercent: int?

  @description('Optional. Minimum number of failed jobs in fifteen minutes for the rule of `failurePercent`. Default: 2.')
  @minValue(1)
  failedJobs: int?

  @description('Optional. Maximum number of throttled requests in five minutes without an alert, for each queue or topic and for each kind of error of the ledger. Default: 20.')
  @minValue(0)
  throttled: int?

  @description('Optional. Number of failed calls to one dependency in fifteen minutes. Default: 20.')
  @minValue(0)
  dependencyFaults: int?

  @description('Optional. Number of 5xx responses in fifteen minutes. Default: 10.')
  @minValue(0)
  serverErrors: int?

  @description('Optional. Number of exceptions that the host logs in fifteen minutes. The host logs up to three exceptions for one fault. Default: 15.')
  @minValue(0)
  exceptions: int?

  @description('Optional. Number of messages in fifteen minutes that no job could accept, for one reason. Default: 0.')
  @minValue(0)
  rejectedMessages: int?

  @description('Optional. Number of failed health checks of one dependency in fifteen minutes. Sweeps, `GET /v1/health/ready` and `GET /v1/dashboard/metrics` check the dependencies. Default: 2.')
  @minValue(0)
  @maxValue(10)
  notReady: int?

  @description('Optional. Number of failed sweeps in fifteen minutes. The sweeper starts once a minute. Default: 2.')
  @minValue(0)
  @maxValue(10)
  failedSweeps: int?
}

var topology = loadJsonContent('../topology.json')
var directiveTopics = map(range(0, topology.lanes), lane => '${topology.directives.prefix}${lane}')
var replyTopics = map(range(0, topology.lanes), lane => '${topology.replies.prefix}${lane}')
var replyEntities = concat([topology.replies.queue], replyTopics)

var metricAlerts = [
  {
    name: 'dead-directives'
    means: 'A platform service does not complete directives, so Service Bus dead-letters them.'
    section: 'dead-directives'
    command: 'lucius job list --status QUEUED,IN_PROGRESS'
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
    means: 'Replies have stayed in a dead-letter queue for 15 minutes. The sweeper, which receives dead replies each minute, does not run or fails.'
    section: 'dead-replies'
    command: 'lucius health'
    severity: 2
    scope: serviceBusResourceId
    namespace: 'Microsoft.ServiceBus/namespaces'
    metric: 'DeadletteredMessages'
    aggregation: 'Minimum'
    threshold: 0
    window: 'PT15M'
    dimension: 'EntityName'
    values: replyEntities
  }
  {
    name: 'reply-backlog'
    means: 'For 15 minutes, more replies than the threshold (default 500) have waited, on one lane or in the queue of all lanes. The reply functions do not keep up, or do not run.'
    section: 'reply-backlog'
    command: 'lucius health'
    severity: 2
    scope: serviceBusResourceId
    namespace: 'Microsoft.ServiceBus/namespaces'
    metric: 'ActiveMessages'
    aggregation: 'Minimum'
    threshold: thresholds.?replyBacklog ?? 500
    window: 'PT15M'
    dimension: 'EntityName'
    values: replyEntities
  }
  {
    name: 'bus-throttled'
    means: 'Service Bus throttles requests because of load.'
    section: 'throttling'
    command: 'lucius job list --status QUEUED,IN_PROGRESS'
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
    means: 'The tables of the ledger throttle requests because of load.'
    section: 'throttling'
    command: 'lucius job list --status QUEUED,IN_PROGRESS'
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
    name: 'app-down'
    means: 'The app has sent no telemetry for ten minutes. The app does not run, or its telemetry does not arrive.'
    section: 'unreachable-app'
    command: 'lucius health'
    severity: 0
    query: loadTextContent('../queries/app-down.kql')
    measure: 'Signs'
    aggregation: 'Total'
    threshold: 1
    window: 'PT10M'
    operator: 'LessThan'
  }
  {
    name: 'not-ready'
    means: 'The tables, blobs, Service Bus or the orchestration backend did not respond to the app.'
    section: 'unreachable-dependency'
    command: 'lucius health'
    severity: 1
    query: loadTextContent('../queries/not-ready.kql')
    measure: 'Down'
    aggregation: 'Total'
    threshold: thresholds.?notReady ?? 2
    window: 'PT15M'
    dimension: 'Dependency'
  }
  {
    name: 'server-errors'
    means: 'Callers get 5xx responses.'
    section: 'failed-requests'
    command: 'lucius health'
    severity: 1
    query: loadTextContent('../queries/server-errors.kql')
    measure: 'Failed'
    aggregation: 'Maximum'
    threshold: thresholds.?serverErrors ?? 10
    window: 'PT15M'
  }
  {
    name: 'queued-jobs'
    means: 'The oldest QUEUED job was admitted longer ago than the threshold (default 10 minutes) and has no ACK of a service.'
    section: 'queued-jobs'
    command: 'lucius job list --status QUEUED'
    severity: 1
    query: loadTextContent('../queries/queued-jobs.kql')
    measure: 'Oldest'
    aggregation: 'Maximum'
    threshold: thresholds.?queuedSeconds ?? 600
    window: 'PT15M'
  }
  {
    name: 'oldest-wait'
    means: 'The oldest job that waits for a quota was created longer ago than the threshold (default 6 hours). The quota is too small or held, or the tenant of the job sends more jobs than the quota admits.'
    section: 'jobs-waiting-for-quotas'
    command: 'lucius quota list'
    severity: 3
    query: loadTextContent('../queries/oldest-wait.kql')
    measure: 'Oldest'
    aggregation: 'Maximum'
    threshold: thresholds.?waitSeconds ?? 21600
    window: 'PT15M'
  }
  {
    name: 'breaker-open'
    means: 'A circuit breaker is open because jobs of a type fail. Its quota admits no job until the cool-down is over, and then one job.'
    section: 'open-breaker'
    command: 'lucius deadletter list'
    severity: 2
    query: loadTextContent('../queries/breaker-open.kql')
    measure: 'State'
    aggregation: 'Maximum'
    threshold: 1
    window: 'PT15M'
    dimension: 'JobType'
  }
  {
    name: 'webhooks-suspended'
    means: 'All deliveries of a webhook failed for a day. Events of the webhook wait until a caller resumes the webhook.'
    section: 'suspended-webhook'
    command: 'lucius webhook list'
    severity: 3
    query: loadTextContent('../queries/webhooks-suspended.kql')
    measure: 'Suspended'
    aggregation: 'Maximum'
    threshold: 0
    window: 'PT15M'
  }
  {
    name: 'stuck-jobs'
    means: 'A directive has waited for its ACK longer than the threshold (default 5 minutes). A platform service is down or too slow.'
    section: 'unacknowledged-directives'
    command: 'lucius job list --status QUEUED,IN_PROGRESS'
    severity: 2
    query: loadTextContent('../queries/stuck-dispatch.kql')
    measure: 'Oldest'
    aggregation: 'Maximum'
    threshold: thresholds.?stuckSeconds ?? 300
    window: 'PT15M'
  }
  {
    name: 'silent-services'
    means: 'A platform service has sent no reply for five minutes while a directive waited for the service.'
    section: 'unacknowledged-directives'
    command: 'lucius incident list'
    severity: 2
    query: loadTextContent('../queries/silent-services.kql')
    measure: 'Silences'
    aggregation: 'Total'
    threshold: 0
    window: 'PT15M'
    dimension: 'Service'
  }
  {
    name: 'failure-rate'
    means: 'Of the jobs that ended in 15 minutes, the share that failed permanently exceeds the threshold (default 10 %).'
    section: 'failed-jobs'
    command: 'lucius deadletter list'
    severity: 2
    query: replace(
      loadTextContent('../queries/failure-rate.kql'),
      'Failed >= 2',
      'Failed >= ${thresholds.?failedJobs ?? 2}'
    )
    measure: 'FailedPercent'
    aggregation: 'Maximum'
    threshold: thresholds.?failurePercent ?? 10
    window: 'PT15M'
  }
  {
    name: 'exceptions'
    means: 'Functions raise exceptions, or the host cannot start a function.'
    section: 'exceptions-in-functions'
    command: 'lucius job list --status FAILED_FINAL --since 1h'
    severity: 2
    query: loadTextContent('../queries/exceptions.kql')
    measure: 'Exceptions'
    aggregation: 'Total'
    threshold: thresholds.?exceptions ?? 15
    window: 'PT15M'
  }
  {
    name: 'dependency-faults'
    means: 'The ledger, the bus, the orchestrations, App Configuration or the issuer did not respond to calls of the app.'
    section: 'unreachable-dependency'
    command: 'lucius health'
    severity: 2
    query: loadTextContent('../queries/dependency-faults.kql')
    measure: 'Faults'
    aggregation: 'Total'
    threshold: thresholds.?dependencyFaults ?? 20
    window: 'PT15M'
    dimension: 'Dependency'
  }
  {
    name: 'events-unsent'
    means: 'The topic of public events accepts no event. The topic is full or unreachable, or the app has no right to send. Feeds and jobs continue.'
    section: 'unsent-events'
    command: 'lucius health'
    severity: 2
    query: loadTextContent('../queries/events-unsent.kql')
    measure: 'Oldest'
    aggregation: 'Maximum'
    threshold: thresholds.?unsentSeconds ?? 900
    window: 'PT15M'
  }
  {
    name: 'rejected-messages'
    means: 'A sender sends messages that no job can accept.'
    section: 'rejected-messages'
    command: 'lucius rejected list'
    severity: 3
    query: loadTextContent('../queries/rejected-messages.kql')
    measure: 'Rejected'
    aggregation: 'Total'
    threshold: thresholds.?rejectedMessages ?? 0
    window: 'PT15M'
    dimension: 'Reason'
  }
  {
    name: 'sweeps-failed'
    means: 'Sweeps fail, so interrupted work stays unfinished.'
    section: 'silent-sweeper'
    command: 'lucius health'
    severity: 2
    query: loadTextContent('../queries/sweeps-failed.kql')
    measure: 'Passes'
    aggregation: 'Total'
    threshold: thresholds.?failedSweeps ?? 2
    window: 'PT15M'
  }
  {
    name: 'sweeper-silent'
    means: 'The sweeper has completed no sweep for 30 minutes, so interrupted work stays unfinished.'
    section: 'silent-sweeper'
    command: 'lucius health'
    severity: 1
    query: loadTextContent('../queries/sweeper-silent.kql')
    measure: 'Passes'
    aggregation: 'Total'
    threshold: 1
    window: 'PT30M'
    operator: 'LessThan'
  }
  {
    name: 'export-failed'
    means: 'The export of the ledger fails, so a restore after a loss has no recent export.'
    section: 'failed-exports'
    command: 'lucius health'
    severity: 2
    query: loadTextContent('../queries/export-failed.kql')
    measure: 'Failed'
    aggregation: 'Total'
    threshold: 2
    window: 'PT6H'
  }
  {
    name: 'logs-capped'
    means: 'The logs reached their daily cap. Until the cap resets, log alerts are wrong, and app-down and sweeper-silent fire.'
    section: 'missing-telemetry'
    command: 'lucius health'
    severity: 2
    query: loadTextContent('../queries/logs-capped.kql')
    measure: 'Stops'
    aggregation: 'Total'
    threshold: 0
    window: 'PT15M'
  }
]

var auditAlerts = [
  {
    name: 'anchor-missed'
    means: 'For six hours, the app has reported no anchor of a day that ended in the last 30 hours. Histories after the last anchored day are not anchored.'
    section: 'unsigned-heads'
    command: 'lucius health'
    severity: 2
    query: loadTextContent('../queries/anchor-missed.kql')
    measure: 'Fresh'
    aggregation: 'Total'
    threshold: 1
    window: 'PT6H'
    operator: 'LessThan'
  }
  {
    name: 'signing-failed'
    means: 'The key of heads and anchors is missing or does not sign. Auditors get 503, and jobs continue.'
    section: 'unsigned-heads'
    command: 'lucius health'
    severity: 2
    query: loadTextContent('../queries/signing-failed.kql')
    measure: 'Failed'
    aggregation: 'Total'
    threshold: 0
    window: 'PT15M'
  }
]

resource actionGroup 'Microsoft.Insights/actionGroups@2023-01-01' = if (!empty(emails)) {
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

module rules 'alert-rules.bicep' = {
  name: 'alert-rules'
  params: {
    namePrefix: namePrefix
    location: location
    tags: tags
    workspaceResourceId: workspaceResourceId
    metricAlerts: metricAlerts
    logAlerts: signHeads ? concat(logAlerts, auditAlerts) : logAlerts
    actionGroupIds: empty(emails) ? actionGroupIds : concat(actionGroupIds, [actionGroup.id])
  }
}
