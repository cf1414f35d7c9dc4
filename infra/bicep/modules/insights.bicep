metadata name = 'Insights'
metadata description = 'Saved queries and a workbook over the app\'s telemetry (docs/reference/observability.md).'

import { tagsType } from 'shapes.bicep'

@description('Required. Resource id of the Log Analytics workspace.')
param workspaceResourceId string

@description('Required. `true` if the deployment creates the workspace. This module then saves the queries in the workspace.')
param savesQueries bool

@description('Required. Region of the workbook.')
param location string

@description('Optional. Tags of the workbook.')
param tags tagsType = {}

@description('Required. Display name of the workbook in the portal.')
param displayName string

var category = 'LUCIUS'
var queries = [
  { id: 'jobs', title: 'Jobs created and ended', text: loadTextContent('../queries/jobs.kql') }
  { id: 'job-timeline', title: 'Timeline of one job', text: loadTextContent('../queries/job-timeline.kql') }
  { id: 'slowest-jobs', title: 'Slowest jobs', text: loadTextContent('../queries/slowest-jobs.kql') }
  {
    id: 'failures-by-reason'
    title: 'Failed jobs by reason'
    text: loadTextContent('../queries/failures-by-reason.kql')
  }
  {
    id: 'retries-by-cause'
    title: 'Retried attempts by cause'
    text: loadTextContent('../queries/retries-by-cause.kql')
  }
  { id: 'step-latency', title: 'Latency of steps', text: loadTextContent('../queries/step-latency.kql') }
  { id: 'queued-jobs', title: 'Oldest QUEUED job', text: loadTextContent('../queries/queued-jobs.kql') }
  {
    id: 'stuck-dispatch'
    title: 'Oldest directive without an ACK'
    text: loadTextContent('../queries/stuck-dispatch.kql')
  }
  { id: 'refused-requests', title: 'Requests over a limit', text: loadTextContent('../queries/refused-requests.kql') }
  {
    id: 'dependency-faults'
    title: 'Failed calls to dependencies'
    text: loadTextContent('../queries/dependency-faults.kql')
  }
  { id: 'warnings', title: 'Warnings of the app', text: loadTextContent('../queries/warnings.kql') }
]
// Charts and tables of the workbook, by the id of the query. The dashboard shows the current queues.
var shown = [
  { id: 'jobs', chart: 'timechart' }
  { id: 'step-latency', chart: 'timechart' }
  { id: 'retries-by-cause', chart: 'timechart' }
  { id: 'failures-by-reason', chart: 'table' }
  { id: 'slowest-jobs', chart: 'table' }
  { id: 'refused-requests', chart: 'table' }
  { id: 'warnings', chart: 'table' }
]
var workbook = {
  version: 'Notebook/1.0'
  items: concat(
    [
      {
        type: 9
        name: 'parameters'
        content: {
          version: 'KqlParameterItem/1.0'
          style: 'pills'
          queryType: 0
          resourceType: 'microsoft.operationalinsights/workspaces'
          parameters: [
            {
              id: guid(workspaceResourceId, 'TimeRange')
              version: 'KqlParameterItem/1.0'
              name: 'TimeRange'
              type: 4
              isRequired: true
              value: { durationMs: 14400000 }
              typeSettings: {
                allowCustom: true
                selectableValues: [
                  { durationMs: 3600000 }
                  { durationMs: 14400000 }
                  { durationMs: 86400000 }
                  { durationMs: 604800000 }
                ]
              }
            }
          ]
        }
      }
    ],
    map(shown, item => {
      type: 3
      name: item.id
      content: {
        version: 'KqlItem/1.0'
        title: first(filter(queries, query => query.id == item.id))!.title
        query: first(filter(queries, query => query.id == item.id))!.text
        size: 0
        queryType: 0
        resourceType: 'microsoft.operationalinsights/workspaces'
        crossComponentResources: [
          workspaceResourceId
        ]
        visualization: item.chart
        timeContextFromParameter: 'TimeRange'
      }
    })
  )
}

resource workspace 'Microsoft.OperationalInsights/workspaces@2025-07-01' existing = {
  name: last(split(workspaceResourceId, '/'))
}

resource savedSearches 'Microsoft.OperationalInsights/workspaces/savedSearches@2025-07-01' = [
  for query in queries: if (savesQueries) {
    parent: workspace
    name: 'lucius-${query.id}'
    properties: {
      // without an etag, each further deployment fails with 409; the type lacks the property
      #disable-next-line BCP037
      etag: '*'
      category: category
      displayName: query.title
      query: query.text
    }
  }
]

resource book 'Microsoft.Insights/workbooks@2023-06-01' = {
  name: guid(workspaceResourceId, 'lucius-workbook')
  location: location
  tags: tags
  kind: 'shared'
  properties: {
    category: 'workbook'
    displayName: displayName
    serializedData: string(workbook)
    sourceId: workspaceResourceId
    version: 'Notebook/1.0'
  }
}
