metadata name = 'Platform service'
metadata description = 'Gives a platform service what it may do: receive from its own subscription on each lane, send to each reply lane, read documents, write results and workspaces. Nothing of the ledger.'

import { tagsType } from 'shapes.bicep'
import { documentsType } from 'storage.bicep'

@description('Required. Names of the services in topology.json that the identity acts as: those of its subscriptions. A platform team has one; who tries things out by hand may have all.')
@minLength(1)
param serviceNames string[]

@description('Required. Name of the identity that is made for it; not made where `principalId` is given.')
param identityName string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Object id of an identity that it has already. Empty: one is made.')
param principalId string = ''

@description('Optional. What kind of identity `principalId` is.')
@allowed([
  'ServicePrincipal'
  'User'
  'Group'
])
param principalType string = 'ServicePrincipal'

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

@description('Required. Where documents and workspaces are.')
param documents documentsType

var holder = empty(principalId) ? identity!.properties.principalId : principalId

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = if (empty(principalId)) {
  name: identityName
  location: location
  tags: tags
}

// in a deployment of their own: the names of assignments hold the id of an identity that is made here
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

@description('Client id of the identity that was made: AZURE_CLIENT_ID of the service. Empty where one was given.')
output identityClientId string = identity.?properties.clientId ?? ''

@description('Object id that holds the rights.')
output principalId string = holder
