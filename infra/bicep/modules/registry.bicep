metadata name = 'Container registry'
metadata description = 'The registry of the images of platform services. Only identities can use it: it has no admin user.'

import { tagsType } from 'shapes.bicep'

@description('Required. Name of the registry, unique in Azure.')
@minLength(5)
@maxLength(50)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the registry.')
param tags tagsType = {}

resource registry 'Microsoft.ContainerRegistry/registries@2025-11-01' = {
  name: name
  location: location
  tags: tags
  sku: {
    name: 'Basic'
  }
  properties: {
    adminUserEnabled: false
    anonymousPullEnabled: false
  }
}

@description('Resource id of the registry.')
output resourceId string = registry.id
