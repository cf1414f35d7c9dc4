metadata name = 'Platform service'
metadata description = 'The identity of a platform service, with the identity\'s rights.'

import { tagsType } from 'shapes.bicep'
import { documentsType } from 'storage.bicep'

@description('Required. Names of the services in topology.json that the identity acts as.')
@minLength(1)
param serviceNames string[]

@description('Required. Name of the new identity. Unused if `principalId` is set.')
param identityName string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Object id of an existing identity. If empty, the template creates an identity.')
param principalId string = ''

@description('Optional. Type of the identity `principalId`.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param principalType string = 'ServicePrincipal'

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

@description('Required. Storage of documents and workspaces.')
param documents documentsType

var holder = empty(principalId) ? identity!.properties.principalId : principalId

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = if (empty(principalId)) {
  name: identityName
  location: location
  tags: tags
}

// in a separate deployment: the names of assignments contain the id of an identity that is created here
module roles 'platform-service-roles.bicep' = {
  name: 'roles-${uniqueString(identityName, principalId)}'
  params: {
    serviceNames: serviceNames
    principalId: holder
    principalType: principalType
    serviceBusName: serviceBusName
    documents: documents
  }
}

@description('Client id of the new identity, for AZURE_CLIENT_ID of the service. Empty if `principalId` is set.')
output identityClientId string = identity.?properties.clientId ?? ''

@description('Resource id of the new identity. Empty if `principalId` is set.')
output identityResourceId string = identity.?id ?? ''

@description('Object id of the identity with the roles.')
output principalId string = holder
