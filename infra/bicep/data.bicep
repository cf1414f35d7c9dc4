metadata name = 'Data'
metadata description = 'The storage accounts of runtime, ledger, documents and anchors, and the App Configuration store.'

import { appConfigurationDataOwner, appConfigurationDataReader } from 'modules/roles.bicep'
import { holderType, privateAccessType, tagsType } from 'modules/shapes.bicep'
import { documentsType, ledgerType, runtimeType } from 'modules/storage.bicep'

@description('Required. Suffix of the resource names.')
@minLength(22)
@maxLength(41)
param suffix string

@description('Required. Suffix that makes the account names unique in Azure.')
@minLength(13)
@maxLength(13)
param token string

@description('Required. Region.')
param location string

@description('Required. Tags of the resources.')
param tags tagsType

@description('Required. Redundancy of all storage accounts.')
@allowed([
  'Standard_LRS'
  'Standard_ZRS'
  'Standard_GRS'
  'Standard_GZRS'
])
param storageSku string

@description('Required. Retention of deleted blobs and containers in days (soft delete).')
@minValue(1)
@maxValue(365)
param softDeleteDays int

@description('Required. Days from the last write of a workspace file, run log or run artifact until Azure deletes the file. 0 means never.')
@minValue(0)
@maxValue(36500)
param workspaceRetentionDays int

@description('Required. Logs of storage requests. `Deletes` logs deletions only. `All` also logs reads and writes, and costs more than the requests.')
@allowed([
  'Deletes'
  'All'
])
param storageRequestLogs string

@description('Required. `true` creates a lock that prevents the deletion of the ledger\'s storage account. The deploying identity then needs the right Microsoft.Authorization/locks/write (Owner or User Access Administrator).')
param lockLedger bool

@description('Required. `true` if the runtime needs queues, as with the AzureStorage backend.')
param queues bool

@description('Required. `true` creates a storage account for anchors of heads.')
param anchors bool

@description('Required. `true` locks the policy that keeps anchors for 400 days.')
param lockAnchors bool

@description('Required. `true` creates an App Configuration store.')
param appConfiguration bool

@description('Required. Tier of App Configuration.')
@allowed([
  'developer'
  'standard'
  'premium'
])
param appConfigurationSku string

@description('Required. Object id of the app\'s identity.')
param appPrincipalId string

@description('Required. Identity that can write protocols.')
param operator holderType

@description('Required. Identity that runs the smoke test and can write to the container `smoke`.')
param tester holderType

@description('Required. `true` lets the identity of the smoke test also upload documents.')
param testerUploads bool

@description('Optional. Settings of private endpoints. If absent, the public endpoints accept identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

// The storage accounts, and the roles on each account.
module storage 'modules/storage.bicep' = {
  name: 'storage'
  params: {
    token: token
    location: location
    tags: tags
    skuName: storageSku
    softDeleteDays: softDeleteDays
    workspaceRetentionDays: workspaceRetentionDays
    lockLedger: lockLedger
    anchors: anchors
    lockAnchors: lockAnchors
    appPrincipalId: appPrincipalId
    tester: tester
    testerUploads: testerUploads
    queues: queues
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
    requestLogs: storageRequestLogs
  }
}

module configurationStore 'modules/app-configuration.bicep' = if (appConfiguration) {
  name: 'app-configuration'
  params: {
    name: 'appcs-${suffix}'
    location: location
    tags: tags
    skuName: appConfigurationSku
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
    roleAssignments: [
      {
        principalId: appPrincipalId
        role: appConfigurationDataReader
      }
      {
        principalId: operator.principalId
        principalType: operator.principalType
        role: appConfigurationDataOwner
      }
    ]
  }
}

@description('URL of the container with the deployed packages.')
output packageUri string = storage.outputs.packageUri

@description('Storage of the Functions runtime.')
output runtime runtimeType = storage.outputs.runtime

@description('Storage of the ledger.')
output ledger ledgerType = storage.outputs.ledger

@description('Resource id of the ledger\'s account.')
output ledgerResourceId string = storage.outputs.ledgerResourceId

@description('Blob endpoint of the account with anchors. Empty if signed heads are disabled.')
output anchorsEndpoint string = storage.outputs.anchorsEndpoint

@description('Storage that platform services can access.')
output documents documentsType = storage.outputs.documents

@description('Blob endpoint of the documents\' account.')
output documentsEndpoint string = storage.outputs.documentsEndpoint

@description('URL of the container with a folder for each attempt.')
output workspaceUri string = storage.outputs.workspaceUri

@description('Allowed references of jobs: `host/container/{tenant}`.')
output referenceHosts string[] = storage.outputs.referenceHosts

@description('Name of the App Configuration store. Empty if the template creates no store.')
output storeName string = configurationStore.?outputs.name ?? ''

@description('Endpoint of the App Configuration store. Empty if the template creates no store.')
output storeEndpoint string = configurationStore.?outputs.endpoint ?? ''
