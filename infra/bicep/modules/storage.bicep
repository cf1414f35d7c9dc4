metadata name = 'Storage'
metadata description = 'The storage accounts of the runtime, the ledger, the documents and, if heads are signed, the anchors, with their contents and roles.'

import { holderType, privateAccessType, tagsType } from 'shapes.bicep'
import {
  storageBlobDataContributor
  storageBlobDataOwner
  storageBlobDataReader
  storageBlobDelegator
  storageQueueDataContributor
  storageTableDataContributor
} from 'roles.bicep'

@description('Required. Suffix that makes the account names unique in Azure.')
@minLength(13)
@maxLength(13)
param token string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Required. Redundancy of the data.')
@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_GZRS'
])
param skuName string

@description('Required. Retention of deleted blobs and containers in days (soft delete).')
@minValue(1)
@maxValue(365)
param softDeleteDays int

@description('Required. Days from the last write of a workspace file, run log or run artifact until Azure deletes the file. 0 means never.')
@minValue(0)
param workspaceRetentionDays int

@description('Required. `true` creates a storage account for anchors of heads.')
param anchors bool

@description('Required. `true` locks the policy that keeps anchors for 400 days.')
param lockAnchors bool

@description('Required. Object id of the app\'s identity.')
param appPrincipalId string

@description('Required. Identity that runs the smoke test and can write to the container `smoke`.')
param tester holderType

@description('Required. `true` lets the identity of the smoke test also upload documents.')
param testerUploads bool

@description('Required. `true` if the runtime needs queues, as with the AzureStorage backend.')
param queues bool

@description('Optional. Settings of private endpoints. If absent, the public endpoints accept identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

@description('Required. `true` creates a lock that prevents the deletion of the ledger\'s storage account. The deploying identity then needs the right Microsoft.Authorization/locks/write (Owner or User Access Administrator).')
param lockLedger bool

@description('Required. Logs of storage requests. `Deletes` logs deletions only. `All` also logs reads and writes.')
@allowed([
  'Deletes'
  'All'
])
param requestLogs string

@export()
@description('Storage of the Functions runtime. Each endpoint has a slash at the end.')
@sealed()
type runtimeType = {
  @description('Required. Blob endpoint.')
  blobEndpoint: string

  @description('Required. Queue endpoint.')
  queueEndpoint: string

  @description('Required. Table endpoint.')
  tableEndpoint: string
}

@export()
@description('Storage of the ledger.')
@sealed()
type ledgerType = {
  @description('Required. Table endpoint of the ledger\'s account.')
  tableEndpoint: string

  @description('Required. Blob endpoint of the ledger\'s account, for long strings, archives and exports.')
  blobEndpoint: string

  @description('Required. Table of jobs, steps and events.')
  ledgerTable: string

  @description('Required. Table of idempotency records, active jobs, job lists, quotas, incidents of jobs, bulk operations and usage, by tenant. The table also has the times of sweeps and the counts of the overview.')
  indexTable: string

  @description('Required. Table of tenants that have submitted a job.')
  tenantsTable: string

  @description('Required. Table of messages that no job could accept.')
  rejectedTable: string
}

@export()
@description('Storage that platform services can access.')
@sealed()
type documentsType = {
  @description('Required. Name of the storage account.')
  accountName: string

  @description('Required. Containers that platform services read.')
  inputContainers: string[]

  @description('Required. Container of final results.')
  resultsContainer: string

  @description('Required. Container of workspaces, with a folder for each attempt.')
  workspaceContainer: string

  @description('Required. Container that the runner of packs writes and the app reads.')
  runsContainer: string
}

var ledgerTables = {
  ledger: 'luciusledger'
  index: 'luciusindex'
  tenants: 'luciustenants'
  rejected: 'luciusrejected'
}
var deploymentContainer = 'app-package'
// inputs and outputs of platform services; only platform services access workspaces
var documentsContainer = 'documents'
var smokeContainer = 'smoke'
var inputContainers = [documentsContainer, smokeContainer]
var resultsContainer = 'results'
var workspaceContainer = 'workspace'
// logs and artifacts of runs, which the app reads
var runsContainer = 'runs'

// Data of the Functions runtime: packages, leases, keys, and the AzureStorage backend's hub.
module runtimeStorage 'storage-account.bicep' = {
  name: 'runtime-storage'
  params: {
    name: 'strun${token}'
    location: location
    tags: tags
    skuName: skuName
    containers: [
      deploymentContainer
    ]
    privateServices: [
      'blob'
      'queue'
      'table'
    ]
    softDeleteDays: softDeleteDays
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
    requestLogs: requestLogs
    roleAssignments: concat(
      [
        {
          principalId: appPrincipalId
          role: storageBlobDataOwner
        }
        {
          principalId: appPrincipalId
          role: storageTableDataContributor
        }
      ],
      queues
        ? [
            {
              principalId: appPrincipalId
              role: storageQueueDataContributor
            }
          ]
        : []
    )
  }
}

// The ledger, the source of truth. Only the app has a right to this account.
module ledgerStorage 'storage-account.bicep' = {
  name: 'ledger-storage'
  params: {
    name: 'stled${token}'
    locked: lockLedger
    location: location
    tags: tags
    skuName: skuName
    containers: [
      'lucius-ledger'
      'lucius-archive'
      'lucius-exports'
    ]
    tables: [
      ledgerTables.ledger
      ledgerTables.index
      ledgerTables.tenants
      ledgerTables.rejected
    ]
    privateServices: [
      'blob'
      'table'
    ]
    softDeleteDays: softDeleteDays
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
    requestLogs: requestLogs
    roleAssignments: [
      {
        principalId: appPrincipalId
        role: storageTableDataContributor
      }
      {
        principalId: appPrincipalId
        role: storageBlobDataContributor
      }
    ]
  }
}

// Anchors, which an auditor compares with the ledger: a right to the ledger's account gives no right to this one.
module anchorStorage 'storage-account.bicep' = if (anchors) {
  name: 'anchor-storage'
  params: {
    name: 'staud${token}'
    location: location
    tags: tags
    skuName: skuName
    containers: [
      'lucius-anchors'
    ]
    privateServices: [
      'blob'
    ]
    softDeleteDays: softDeleteDays
    immutableDays: 400
    lockImmutability: lockAnchors
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
    requestLogs: requestLogs
    roleAssignments: [
      {
        principalId: appPrincipalId
        role: storageBlobDataContributor
      }
    ]
  }
}

// Documents, workspaces and results, for platform services and for callers that submit. The app reads the container of runs and signs links
// to the container's blobs. The identity of the smoke test can write to the container `smoke`.
module documentsStorage 'storage-account.bicep' = {
  name: 'documents-storage'
  params: {
    name: 'stdoc${token}'
    location: location
    tags: tags
    skuName: skuName
    containers: concat(inputContainers, [resultsContainer, workspaceContainer, runsContainer])
    privateServices: [
      'blob'
    ]
    softDeleteDays: softDeleteDays
    expiringContainers: concat(
      [
        {
          container: smokeContainer
          days: 1
        }
      ],
      workspaceRetentionDays == 0
        ? []
        : [
            {
              container: workspaceContainer
              days: workspaceRetentionDays
            }
            {
              container: runsContainer
              days: workspaceRetentionDays
            }
          ]
    )
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
    requestLogs: requestLogs
    roleAssignments: [
      {
        principalId: appPrincipalId
        role: storageBlobDelegator
      }
    ]
    containerRoles: concat(
      [
        {
          container: runsContainer
          principalId: appPrincipalId
          principalType: 'ServicePrincipal'
          role: storageBlobDataReader
        }
        {
          container: smokeContainer
          principalId: tester.principalId
          principalType: tester.principalType
          role: storageBlobDataContributor
        }
      ],
      testerUploads
        ? [
            {
              container: documentsContainer
              principalId: tester.principalId
              principalType: tester.principalType
              role: storageBlobDataContributor
            }
          ]
        : []
    )
  }
}

@description('URL of the container with the deployed packages.')
output packageUri string = '${runtimeStorage.outputs.blobEndpoint}${deploymentContainer}'

@description('Storage of the Functions runtime. Each endpoint has a slash at the end.')
output runtime runtimeType = {
  blobEndpoint: runtimeStorage.outputs.blobEndpoint
  queueEndpoint: runtimeStorage.outputs.queueEndpoint
  tableEndpoint: runtimeStorage.outputs.tableEndpoint
}

@description('Resource id of the ledger\'s account.')
output ledgerResourceId string = ledgerStorage.outputs.resourceId

@description('Storage of the ledger.')
output ledger ledgerType = {
  tableEndpoint: ledgerStorage.outputs.tableEndpoint
  blobEndpoint: ledgerStorage.outputs.blobEndpoint
  ledgerTable: ledgerTables.ledger
  indexTable: ledgerTables.index
  tenantsTable: ledgerTables.tenants
  rejectedTable: ledgerTables.rejected
}

@description('Blob endpoint of the account with anchors. Empty if signed heads are disabled.')
output anchorsEndpoint string = anchorStorage.?outputs.blobEndpoint ?? ''

@description('Storage that platform services can access.')
output documents documentsType = {
  accountName: documentsStorage.outputs.name
  inputContainers: inputContainers
  resultsContainer: resultsContainer
  workspaceContainer: workspaceContainer
  runsContainer: runsContainer
}

@description('Blob endpoint of the documents\' account, with a slash at the end.')
output documentsEndpoint string = documentsStorage.outputs.blobEndpoint

@description('URL of the container with a folder for each attempt.')
output workspaceUri string = '${documentsStorage.outputs.blobEndpoint}${workspaceContainer}'

@description('Allowed references of jobs: `host/container/{tenant}`. The app replaces `{tenant}` with the job\'s tenant.')
output referenceHosts string[] = map(
  concat(inputContainers, [resultsContainer, runsContainer]),
  container => '${split(documentsStorage.outputs.blobEndpoint, '/')[2]}/${container}/{tenant}'
)
