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

@description('Required. Alert rules on platform metrics; each fires above its threshold.')
param metricAlerts metricAlertType[]

@description('Required. Alert rules on queries of the workspace.')
param logAlerts logAlertType[]

@description('An alert rule on a platform metric.')
@sealed()
type metricAlertType = {
  @description('Required. Suffix of the rule\'s name.')
  name: string

  @description('Required. Meaning of the alert, one sentence.')
  means: string

  @description('Required. Section of docs/guides/operations.md.')
  section: string

  @description('Required. First command to run.')
  command: string

  @description('Required. Severity, from 0 (critical) to 4 (verbose).')
  @minValue(0)
  @maxValue(4)
  severity: int

  @description('Required. Resource id of the monitored resource.')
  scope: string

  @description('Required. Type of that resource.')
  namespace: string

  @description('Required. Name of the metric.')
  metric: string

  @description('Required. Aggregation of the values.')
  aggregation: 'Average' | 'Maximum' | 'Minimum' | 'Total'

  @description('Required. Threshold; the rule fires above it.')
  threshold: int

  @description('Required. Time window.')
  window: string

  @description('Required. Dimension that splits the rule.')
  dimension: string

  @description('Required. Values of the dimension. `*`: all.')
  values: string[]
}

@description('An alert rule on a query.')
@sealed()
type logAlertType = {
  @description('Required. Suffix of the rule\'s name.')
  name: string

  @description('Required. Meaning of the alert, one sentence.')
  means: string

  @description('Required. Section of docs/guides/operations.md.')
  section: string

  @description('Required. First command to run.')
  command: string

  @description('Required. Severity, from 0 (critical) to 4 (verbose).')
  @minValue(0)
  @maxValue(4)
  severity: int

  @description('Required. The query.')
  query: string

  @description('Required. Column of the result that is measured.')
  measure: string

  @description('Required. Aggregation of the rows of the result.')
  aggregation: 'Average' | 'Maximum' | 'Minimum' | 'Total'

  @description('Optional. Comparison of the measured value with the threshold. Default: GreaterThan.')
  operator: ('GreaterThan' | 'LessThan')?

  @description('Required. Threshold; the rule fires above or below it.')
  threshold: int

  @description('Required. Time window.')
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
        // an id from a parameter
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
      // Azure creates the tables with the first telemetry, after the rules
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
