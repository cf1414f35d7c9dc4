metadata name = 'Storage account'
metadata description = 'A storage account that refuses account keys, with its containers, tables, roles, diagnostics and private endpoints.'

import { privateAccessType, roleAssignmentType, tagsType } from 'shapes.bicep'

@description('Required. Name of the account: lower-case letters and digits, unique in Azure.')
@minLength(3)
@maxLength(24)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Redundancy of the data.')
@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_GZRS'
])
param skuName string = 'Standard_LRS'

@description('Optional. `true` creates a lock that prevents the deletion of the account.')
param locked bool = false

@description('Optional. Blob containers to create.')
param containers string[] = []

@description('Optional. Tables to create.')
param tables string[] = []

@description('Optional. Services of the account that get a private endpoint if `privateAccess` is set.')
param privateServices ('blob' | 'queue' | 'table')[] = []

@description('Optional. Retention of deleted blobs and containers in days (soft delete).')
@minValue(1)
@maxValue(365)
param softDeleteDays int = 7

@description('Optional. Containers whose blobs Azure deletes by age, each with the number of days.')
param expiringContainers expiringContainerType[] = []

@description('Optional. Days in which no version of a blob can be changed or deleted. 0 means no policy. Azure accepts the policy for a new account only.')
@minValue(0)
@maxValue(146000)
param immutableDays int = 0

@description('Optional. `true` locks the policy of `immutableDays`. A locked policy can only be extended. The account cannot be deleted while it has a blob that the policy protects.')
param lockImmutability bool = false

@description('Optional. Roles on this account.')
param roleAssignments roleAssignmentType[] = []

@description('Optional. Roles on single containers of this account.')
param containerRoles containerRoleType[] = []

@description('Optional. Settings of private endpoints. If absent, the public endpoint accepts identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

@description('Optional. Logs of storage requests. `Deletes` logs deletions only. `All` also logs reads and writes, and costs more than the requests.')
@allowed([
  'Deletes'
  'All'
])
param requestLogs string = 'Deletes'

@description('A role of an identity on a container.')
@sealed()
type containerRoleType = {
  @description('Required. Name of the container, one of `containers`.')
  container: string

  @description('Required. Object id of the identity.')
  principalId: string

  @description('Required. Type of the identity.')
  principalType: 'ServicePrincipal' | 'User' | 'Group'

  @description('Required. Id of the built-in role, from `roles.bicep`.')
  role: string
}

@description('A container whose blobs Azure deletes by age.')
@sealed()
type expiringContainerType = {
  @description('Required. Name of the container.')
  container: string

  @description('Required. Days from the last write of a blob until Azure deletes the blob.')
  days: int
}

var requestCategories = requestLogs == 'All' ? ['StorageRead', 'StorageWrite', 'StorageDelete'] : ['StorageDelete']

resource account 'Microsoft.Storage/storageAccounts@2025-06-01' = {
  name: name
  location: location
  tags: tags
  kind: 'StorageV2'
  sku: {
    name: skuName
  }
  properties: {
    accessTier: 'Hot'
    allowBlobPublicAccess: false
    allowCrossTenantReplication: false
    allowSharedKeyAccess: false
    allowedCopyScope: 'AAD'
    defaultToOAuthAuthentication: true
    isLocalUserEnabled: false
    minimumTlsVersion: 'TLS1_2'
    supportsHttpsTrafficOnly: true
    ...(immutableDays == 0
      ? {}
      : {
          immutableStorageWithVersioning: {
            enabled: true
            immutabilityPolicy: {
              allowProtectedAppendWrites: false
              immutabilityPeriodSinceCreationInDays: max(immutableDays, 1)
              state: lockImmutability ? 'Locked' : 'Unlocked'
            }
          }
        })
    publicNetworkAccess: privateAccess == null ? 'Enabled' : 'Disabled'
    networkAcls: {
      bypass: privateAccess == null ? 'AzureServices' : 'None'
      defaultAction: privateAccess == null ? 'Allow' : 'Deny'
    }
  }
}

// The lock prevents the deletion of the account by Resource Manager. It does not prevent the deletion of tables by the data plane.
resource lock 'Microsoft.Authorization/locks@2020-05-01' = if (locked) {
  scope: account
  name: 'keep'
  properties: {
    level: 'CanNotDelete'
    notes: 'The ledger. Delete this lock before you delete the environment (docs/guides/restore.md).'
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-06-01' = {
  parent: account
  name: 'default'
  properties: {
    ...(immutableDays == 0 ? {} : { isVersioningEnabled: true })
    deleteRetentionPolicy: {
      enabled: true
      days: softDeleteDays
    }
    containerDeleteRetentionPolicy: {
      enabled: true
      days: softDeleteDays
    }
  }
}

resource blobContainers 'Microsoft.Storage/storageAccounts/blobServices/containers@2025-06-01' = [
  for container in containers: {
    parent: blobs
    name: container
    properties: {
      publicAccess: 'None'
    }
  }
]

resource queues 'Microsoft.Storage/storageAccounts/queueServices@2025-06-01' = {
  parent: account
  name: 'default'
  properties: {}
}

resource tableService 'Microsoft.Storage/storageAccounts/tableServices@2025-06-01' = {
  parent: account
  name: 'default'
  properties: {}
}

resource accountTables 'Microsoft.Storage/storageAccounts/tableServices/tables@2025-06-01' = [
  for table in tables: {
    parent: tableService
    name: table
  }
]

resource lifecycle 'Microsoft.Storage/storageAccounts/managementPolicies@2025-06-01' = if (!empty(expiringContainers)) {
  parent: account
  name: 'default'
  properties: {
    policy: {
      rules: [
        for expiring in expiringContainers: {
          name: 'expire-${expiring.container}'
          enabled: true
          type: 'Lifecycle'
          definition: {
            filters: {
              blobTypes: [
                'blockBlob'
                'appendBlob'
              ]
              prefixMatch: [
                '${expiring.container}/'
              ]
            }
            actions: {
              baseBlob: {
                delete: {
                  daysAfterModificationGreaterThan: expiring.days
                }
              }
            }
          }
        }
      ]
    }
  }
  dependsOn: [
    blobs
  ]
}

resource roles 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for assignment in roleAssignments: {
    name: guid(account.id, assignment.principalId, assignment.role)
    scope: account
    properties: {
      principalId: assignment.principalId
      principalType: assignment.?principalType ?? 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', assignment.role)
    }
  }
]

resource rolesOfContainers 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for assignment in containerRoles: {
    name: guid(account.id, assignment.container, assignment.principalId, assignment.role)
    scope: blobContainers[indexOf(containers, assignment.container)]
    properties: {
      principalId: assignment.principalId
      principalType: assignment.principalType
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', assignment.role)
    }
  }
]

module privateEndpoints 'private-endpoint.bicep' = [
  for service in (privateAccess == null ? [] : privateServices): {
    name: 'pep-${name}-${service}'
    params: {
      name: 'pep-${name}-${service}'
      location: location
      tags: tags
      subnetResourceId: privateAccess!.subnetResourceId
      targetResourceId: account.id
      groupId: service
      zoneResourceIds: [
        privateAccess!.zones[service]
      ]
    }
  }
]

resource accountDiagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: account
  properties: {
    workspaceId: workspaceResourceId
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}

resource blobDiagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: blobs
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      for category in requestCategories: {
        category: category
        enabled: true
      }
    ]
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}

resource queueDiagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: queues
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      for category in requestCategories: {
        category: category
        enabled: true
      }
    ]
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}

resource tableDiagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: tableService
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      for category in requestCategories: {
        category: category
        enabled: true
      }
    ]
    metrics: [
      {
        category: 'Transaction'
        enabled: true
      }
    ]
  }
}

@description('Resource id of the account.')
output resourceId string = account.id

@description('Name of the account.')
output name string = account.name

@description('Blob endpoint, with a slash at the end.')
output blobEndpoint string = account.properties.primaryEndpoints.blob

@description('Queue endpoint, with a slash at the end.')
output queueEndpoint string = account.properties.primaryEndpoints.queue

@description('Table endpoint, with a slash at the end.')
output tableEndpoint string = account.properties.primaryEndpoints.table
