metadata name = 'Platform services'
metadata description = 'The identities and rights of platform services, and the container apps of the services in containers.json.'

import { documentsType } from 'modules/storage.bicep'
import { holderType, tagsType } from 'modules/shapes.bicep'

@description('Required. Suffix of the resource names.')
@minLength(22)
@maxLength(41)
param suffix string

@description('Required. Suffix that makes names unique in Azure.')
@minLength(13)
@maxLength(13)
param token string

@description('Required. Region.')
param location string

@description('Required. Tags of the resources.')
param tags tagsType

@description('Required. Platform services that get roles on Service Bus and storage. A service without `principalId` gets a new identity.')
param platformServices platformServiceType[]

@description('Required. `true` runs each service of `platformServices` in a container app, if containers.json has the service and the service has no `principalId`.')
param containerApps bool

@description('Required. Tag of the images. If empty, the template creates no container app.')
param imageTag string

@description('Required. Resource id of the registry. If empty, and `containerApps` selects a service, the template creates a registry, even if `imageTag` is empty.')
param registryResourceId string

@description('Required. Resource id of the subnet of the container apps. Empty means a network that Azure manages.')
param containerSubnetResourceId string

@description('Required. `true` spreads the container apps over availability zones. Zones require a subnet.')
param zoneRedundant bool

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

@description('Required. Host name of the Service Bus namespace.')
param serviceBusNamespace string

@description('Required. Storage that platform services can access.')
param documents documentsType

@description('Required. Blob endpoint of documents and workspaces.')
param documentsEndpoint string

@description('Required. Resource id of the Log Analytics workspace for logs.')
param workspaceResourceId string

@description('Required. Identity that runs the smoke test.')
param tester holderType

@description('Required. `true` lets the identity of the smoke test act as each platform service.')
param testerRunsServices bool

@export()
@description('A platform service that gets roles on Service Bus and storage.')
@sealed()
type platformServiceType = {
  @description('Required. Name of the service in topology.json.')
  name: string

  @description('Optional. Object id of an existing identity of a service that runs elsewhere. If absent, the template creates an identity.')
  principalId: string?
}

var topology = loadJsonContent('topology.json')
var containers = loadJsonContent('containers.json')
var created = map(filter(platformServices, service => empty(service.?principalId ?? '')), service => service.name)
// services that run in a container app, in the order of containers.json
var run = filter(containers, container => containerApps && contains(created, container.service))
var withRegistry = !empty(run)
var withApps = withRegistry && !empty(imageTag)

module services 'modules/platform-service.bicep' = [
  for service in platformServices: {
    name: 'platform-service-${service.name}'
    params: {
      serviceNames: [
        service.name
      ]
      identityName: 'id-${service.name}-${suffix}'
      location: location
      tags: tags
      principalId: service.?principalId ?? ''
      serviceBusName: serviceBusName
      documents: documents
    }
  }
]

module operatorServices 'modules/platform-service.bicep' = if (testerRunsServices) {
  name: 'platform-services-of-the-operator'
  params: {
    serviceNames: map(topology.services, service => service.name)
    identityName: 'none'
    location: location
    principalId: tester.principalId
    principalType: tester.principalType
    serviceBusName: serviceBusName
    documents: documents
  }
}

// Container Apps pulls images and counts messages with this identity. No code gets a token of this identity.
module platformIdentity 'modules/identity.bicep' = if (withRegistry) {
  name: 'container-apps-identity'
  params: {
    name: 'id-containers-${suffix}'
    location: location
    tags: tags
  }
}

module registry 'modules/registry.bicep' = if (withRegistry && empty(registryResourceId)) {
  name: 'registry'
  params: {
    name: 'crlucius${token}'
    location: location
    tags: tags
    workspaceResourceId: workspaceResourceId
  }
}

var registryId = empty(registryResourceId) ? registry.?outputs.resourceId ?? '' : registryResourceId
// /subscriptions/ID/resourceGroups/NAME/providers/Microsoft.ContainerRegistry/registries/NAME
var ownRegistry = split(registryResourceId, '/')

module pull 'modules/registry-pull.bicep' = if (withRegistry) {
  name: 'registry-pull'
  scope: resourceGroup(
    empty(registryResourceId) ? subscription().subscriptionId : ownRegistry[2],
    empty(registryResourceId) ? resourceGroup().name : ownRegistry[4]
  )
  params: {
    registryName: last(split(registryId, '/'))
    principalId: platformIdentity!.outputs.principalId
  }
}

module counts 'modules/message-count-rights.bicep' = if (withRegistry) {
  name: 'message-count-rights'
  params: {
    principalId: platformIdentity!.outputs.principalId
    serviceBusName: serviceBusName
  }
}

module environment 'modules/container-environment.bicep' = if (withApps) {
  name: 'container-environment'
  params: {
    name: 'cae-${suffix}'
    location: location
    tags: tags
    subnetResourceId: containerSubnetResourceId
    zoneRedundant: zoneRedundant
    workspaceResourceId: workspaceResourceId
  }
}

module apps 'modules/container-app.bicep' = [
  for container in run: if (withApps) {
    name: 'container-app-${container.service}'
    params: {
      name: 'ca-${container.service}-${take(token, 8)}'
      location: location
      tags: tags
      environmentResourceId: environment!.outputs.resourceId
      service: container.service
      image: '${pull!.outputs.loginServer}/${container.image}:${imageTag}'
      cpu: container.cpu
      memory: container.memory
      minReplicas: container.minReplicas
      maxReplicas: container.maxReplicas
      settings: container.settings
      registryServer: pull!.outputs.loginServer
      identity: {
        resourceId: services[indexOf(map(platformServices, service => service.name), container.service)].outputs.identityResourceId
        clientId: services[indexOf(map(platformServices, service => service.name), container.service)].outputs.identityClientId
      }
      platformIdentityResourceId: platformIdentity!.outputs.resourceId
      serviceBusName: serviceBusName
      serviceBusNamespace: serviceBusNamespace
      documentsEndpoint: documentsEndpoint
    }
    dependsOn: [
      counts
    ]
  }
]

@description('Client ids of the identities of platform services.')
output clientIds {
  @description('Name of the service.')
  service: string

  @description('Client id of the identity that the template created for the service. Empty if `platformServices` has a `principalId` for the service.')
  clientId: string
}[] = [
  for (service, index) in platformServices: {
    service: service.name
    clientId: services[index].outputs.identityClientId
  }
]

@description('Resource id of the registry. Empty if no container app needs a registry.')
output registryResourceId string = withRegistry ? registryId : ''
