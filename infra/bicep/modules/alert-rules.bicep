metadata name = 'Alert rules'
metadata description = 'Metric rules, and log rules over the workspace. A description has the meaning, the section of the runbook and the first command.'

import { tagsType } from 'shapes.bicep'

@description('Required. Prefix of the names of the alert rules.')
param namePrefix string

@description('Required. Region of the log alerts.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Required. Resource id of the Log Analytics workspace.')
param workspaceResourceId string

@description('Required. Resource ids of the action groups that receive alerts.')
param actionGroupIds string[]

@description('Required. Alert rules on platform metrics. A rule fires if the value is above the threshold.')
param metricAlerts metricAlertType[]

@description('Required. Alert rules on queries of the workspace.')
param logAlerts logAlertType[]

@description('An alert rule on a platform metric.')
@sealed()
type metricAlertType = {
  @description('Required. Suffix of the rule\'s name.')
  name: string

  @description('Required. Meaning of the alert, in full sentences.')
  means: string

  @description('Required. Anchor of the alert\'s section in docs/guides/operations.md.')
  section: string

  @description('Required. First command that the operator must run.')
  command: string

  @description('Required. Severity, from 0 (critical) to 4 (verbose).')
  @minValue(0)
  @maxValue(4)
  severity: int

  @description('Required. Resource id of the monitored resource.')
  scope: string

  @description('Required. Type of the monitored resource.')
  namespace: string

  @description('Required. Name of the metric.')
  metric: string

  @description('Required. Aggregation of the metric\'s values in the time window.')
  aggregation: 'Average' | 'Maximum' | 'Minimum' | 'Total'

  @description('Required. Threshold. The rule fires if the aggregated value is above the threshold.')
  threshold: int

  @description('Required. Time window of an evaluation, as an ISO 8601 duration.')
  window: string

  @description('Required. Dimension that splits the rule.')
  dimension: string

  @description('Required. Values of the dimension. `*` means all values.')
  values: string[]
}

@description('An alert rule on a query.')
@sealed()
type logAlertType = {
  @description('Required. Suffix of the rule\'s name.')
  name: string

  @description('Required. Meaning of the alert, in full sentences.')
  means: string

  @description('Required. Anchor of the alert\'s section in docs/guides/operations.md.')
  section: string

  @description('Required. First command that the operator must run.')
  command: string

  @description('Required. Severity, from 0 (critical) to 4 (verbose).')
  @minValue(0)
  @maxValue(4)
  severity: int

  @description('Required. Text of the query.')
  query: string

  @description('Required. Column of the result with the measured value.')
  measure: string

  @description('Required. Aggregation of the rows of the result.')
  aggregation: 'Average' | 'Maximum' | 'Minimum' | 'Total'

  @description('Optional. Comparison of the measured value with the threshold. Default: GreaterThan.')
  operator: ('GreaterThan' | 'LessThan')?

  @description('Required. Threshold of the measured value.')
  threshold: int

  @description('Required. Time window of an evaluation, as an ISO 8601 duration.')
  window: string

  @description('Optional. Column of the result that splits the rule. Default: no split.')
  dimension: string?
}

resource metricRules 'Microsoft.Insights/metricAlerts@2018-03-01' = [
  for alert in metricAlerts: {
    name: '${namePrefix}-${alert.name}'
    location: 'global'
    tags: tags
    properties: {
      description: '${alert.means} Runbook: docs/guides/operations.md#${alert.section}. Begin with: ${alert.command}'
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
      actions: map(actionGroupIds, id => {
        // the id comes from a parameter, so no resource function can make it
        #disable-next-line use-resource-id-functions
        actionGroupId: id
      })
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
      description: '${alert.means} Runbook: docs/guides/operations.md#${alert.section}. Begin with: ${alert.command}'
      severity: alert.severity
      enabled: true
      autoMitigate: true
      scopes: [
        workspaceResourceId
      ]
      evaluationFrequency: 'PT5M'
      windowSize: alert.window
      // Azure creates the tables at the first telemetry, which comes after the rules
      skipQueryValidation: true
      criteria: {
        allOf: [
          {
            query: alert.query
            metricMeasureColumn: alert.measure
            timeAggregation: alert.aggregation
            operator: alert.?operator ?? 'GreaterThan'
            threshold: alert.threshold
            dimensions: empty(alert.?dimension ?? '')
              ? []
              : [
                  {
                    name: alert.?dimension ?? ''
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
        actionGroups: actionGroupIds
      }
    }
  }
]
