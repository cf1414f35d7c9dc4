metadata name = 'Messaging'
metadata description = 'The Service Bus namespace, and the app\'s roles on it.'

import { serviceBusDataOwner, serviceBusDataReceiver, serviceBusDataSender } from 'modules/roles.bicep'
import { privateAccessType, tagsType } from 'modules/shapes.bicep'

@description('Required. Suffix of the resource names.')
@minLength(22)
@maxLength(41)
param suffix string

@description('Required. Region.')
param location string

@description('Required. Tags of the resources.')
param tags tagsType

@description('Required. Tier of Service Bus.')
@allowed([
  'Standard'
  'Premium'
])
param serviceBusSku string

@description('Required. Messaging units of the Premium tier.')
@allowed([
  1
  2
  4
  8
  16
])
param serviceBusCapacity int

@description('Required. `true` scales each reply function by its number of replies, and allows dispatch limits with `max_active`. The app then gets the role Azure Service Bus Data Owner, with which the app can delete topics. If `false`, Azure adds one instance at a time for a reply function.')
param targetBasedScaling bool

@description('Required. Object id of the app\'s identity.')
param appPrincipalId string

@description('Optional. Settings of private endpoints. If absent, the public endpoints accept identities with a role.')
param privateAccess privateAccessType?

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

module serviceBus 'modules/service-bus.bicep' = {
  name: 'service-bus'
  params: {
    name: 'sbns-${suffix}'
    location: location
    tags: tags
    skuName: serviceBusSku
    capacity: serviceBusCapacity
    privateAccess: privateAccess
    workspaceResourceId: workspaceResourceId
    roleAssignments: targetBasedScaling
      ? [
          {
            principalId: appPrincipalId
            role: serviceBusDataOwner
          }
        ]
      : [
          {
            principalId: appPrincipalId
            role: serviceBusDataReceiver
          }
          {
            principalId: appPrincipalId
            role: serviceBusDataSender
          }
        ]
  }
}

@description('Resource id of the namespace.')
output resourceId string = serviceBus.outputs.resourceId

@description('Name of the namespace.')
output name string = serviceBus.outputs.name

@description('Host name of the namespace.')
output fullyQualifiedNamespace string = serviceBus.outputs.fullyQualifiedNamespace
