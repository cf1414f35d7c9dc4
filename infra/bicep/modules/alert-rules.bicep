metadata name = 'Alert rules'
metadata description = 'Metric rules, and log rules over the workspace. A description has what it means, its section of the runbook and the command to begin with.'

import { tagsType } from 'shapes.bicep'

@description('Required. Start of the names of the alert rules.')
param namePrefix string

@description('Required. Region of the log alerts.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Required. Resource id of the Log Analytics workspace.')
param workspaceResourceId string

@description('Required. Resource ids of the action groups that are told.')
param actionGroupIds string[]

@description('Required. Rules over metrics of the platform; each fires above its threshold.')
param metricAlerts metricAlertType[]

@description('Required. Rules over queries of the workspace.')
param logAlerts logAlertType[]

@description('A rule over a metric of the platform.')
@sealed()
type metricAlertType = {
  @description('Required. End of its name.')
  name: string

  @description('Required. What it means, a sentence.')
  means: string

  @description('Required. Section of docs/guides/operations.md.')
  section: string

  @description('Required. The first line to type.')
  command: string

  @description('Required. 0 wakes somebody, 4 does not.')
  @minValue(0)
  @maxValue(4)
  severity: int

  @description('Required. Resource id of what has the metric.')
  scope: string

  @description('Required. Type of that resource.')
  namespace: string

  @description('Required. Name of the metric.')
  metric: string

  @description('Required. How its values add up.')
  aggregation: 'Average' | 'Maximum' | 'Minimum' | 'Total'

  @description('Required. It fires above it.')
  threshold: int

  @description('Required. Time that is looked at.')
  window: string

  @description('Required. Dimension by which it is split.')
  dimension: string

  @description('Required. Values of the dimension; `*`: all.')
  values: string[]
}

@description('A rule over a query.')
@sealed()
type logAlertType = {
  @description('Required. End of its name.')
  name: string

  @description('Required. What it means, a sentence.')
  means: string

  @description('Required. Section of docs/guides/operations.md.')
  section: string

  @description('Required. The first line to type.')
  command: string

  @description('Required. 0 wakes somebody, 4 does not.')
  @minValue(0)
  @maxValue(4)
  severity: int

  @description('Required. The query.')
  query: string

  @description('Required. Column of its result that is measured.')
  measure: string

  @description('Required. How the rows of the result add up.')
  aggregation: 'Average' | 'Maximum' | 'Minimum' | 'Total'

  @description('Optional. Default: GreaterThan.')
  operator: ('GreaterThan' | 'LessThan')?

  @description('Required. It fires above it, or below it.')
  threshold: int

  @description('Required. Time that is looked at.')
  window: string

  @description('Optional. Column of the result by whose values it is split. Default: it is not.')
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
        // an id that came by parameter
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
      // the tables come to be with the first telemetry, after the rules
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
