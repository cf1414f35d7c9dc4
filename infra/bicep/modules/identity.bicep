metadata name = 'Identity'
metadata description = 'A user-assigned identity, of the function app or of Container Apps.'

import { tagsType } from 'shapes.bicep'

@description('Required. Name of the identity.')
@minLength(3)
@maxLength(128)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resource.')
param tags tagsType = {}

resource identity 'Microsoft.ManagedIdentity/userAssignedIdentities@2024-11-30' = {
  name: name
  location: location
  tags: tags
}

@description('Resource id of the identity.')
output resourceId string = identity.id

@description('Object id of the service principal, for role assignments.')
output principalId string = identity.properties.principalId

@description('Client id, for SDKs and bindings.')
output clientId string = identity.properties.clientId
