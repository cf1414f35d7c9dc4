metadata name = 'Container app of a platform service'
metadata description = 'Runs one platform service with its own identity. Container Apps scales the replicas by the messages of the service\'s subscription on each lane.'

import { identityType, tagsType } from 'shapes.bicep'

@description('Required. Name of the container app.')
@minLength(2)
@maxLength(32)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the app.')
param tags tagsType = {}

@description('Required. Resource id of the Container Apps environment.')
param environmentResourceId string

@description('Required. Name of the service in topology.json. The name is the argument of the image, and the name of the subscription on each lane.')
param service string

@description('Required. Image with its registry and tag.')
param image string

@description('Required. Cores of a replica, for example `0.5`.')
param cpu string

@description('Required. Memory of a replica, which must be 2 GiB for each core.')
param memory string

@description('Required. Minimum replicas, even without messages.')
@minValue(0)
@maxValue(1000)
param minReplicas int

@description('Required. Maximum replicas.')
@minValue(1)
@maxValue(1000)
param maxReplicas int

@description('Required. Settings of the service in addition to those of the bus and the storage.')
param settings settingsType

@description('Required. Host name of the registry.')
param registryServer string

@description('Required. Identity of the service. The code of the service gets tokens of this identity.')
param identity identityType

@description('Required. Resource id of the identity with which Container Apps pulls the image and counts messages. The code of the service cannot get a token of this identity.')
param platformIdentityResourceId string

@description('Required. Name of the Service Bus namespace.')
param serviceBusName string

@description('Required. Host name of the Service Bus namespace.')
param serviceBusNamespace string

@description('Required. Blob endpoint of documents and workspaces.')
param documentsEndpoint string

@export()
@description('Environment variables of a service, by name.')
type settingsType = {
  @description('Optional. Value of the variable with this name.')
  *: string
}

var topology = loadJsonContent('../topology.json')
// seconds from SIGTERM until Container Apps kills a replica; 600 is the maximum
var graceSeconds = 600
var kitSettings = {
  AZURE_CLIENT_ID: identity.clientId
  LUCIUS_SERVICEBUS_CONNECTION__fullyQualifiedNamespace: serviceBusNamespace
  LUCIUS_SERVICEBUS_LANES: string(topology.lanes)
  LUCIUS_SERVICEBUS_REPLY_PREFIX: topology.replies.prefix
  LUCIUS_BLOB_ENDPOINT: documentsEndpoint
  LUCIUS_SERVICE_GRACE_SECONDS: string(graceSeconds - 30)
}

resource app 'Microsoft.App/containerApps@2025-07-01' = {
  name: name
  location: location
  tags: tags
  identity: {
    type: 'UserAssigned'
    userAssignedIdentities: {
      '${identity.resourceId}': {}
      '${platformIdentityResourceId}': {}
    }
  }
  properties: {
    environmentId: environmentResourceId
    workloadProfileName: 'Consumption'
    configuration: {
      activeRevisionsMode: 'Single'
      maxInactiveRevisions: 5
      identitySettings: [
        {
          identity: identity.resourceId
          lifecycle: 'Main'
        }
        {
          identity: platformIdentityResourceId
          lifecycle: 'None'
        }
      ]
      registries: [
        {
          server: registryServer
          identity: platformIdentityResourceId
        }
      ]
    }
    template: {
      terminationGracePeriodSeconds: graceSeconds
      containers: [
        {
          name: service
          image: image
          args: [
            service
          ]
          env: map(items(union(kitSettings, settings)), setting => { name: setting.key, value: setting.value })
          resources: {
            cpu: json(cpu)
            memory: memory
          }
          probes: [
            {
              type: 'Liveness'
              httpGet: {
                path: '/health/live'
                port: 8080
              }
              periodSeconds: 30
              timeoutSeconds: 10
              failureThreshold: 4
            }
            {
              type: 'Startup'
              httpGet: {
                path: '/health/live'
                port: 8080
              }
              periodSeconds: 20
              timeoutSeconds: 10
              failureThreshold: 10
            }
          ]
        }
      ]
      scale: {
        minReplicas: minReplicas
        maxReplicas: maxReplicas
        // each rule should also count messages in progress, so that Container Apps keeps the last replica until its reply
        rules: [
          for lane in range(0, topology.lanes): {
            name: 'directives-p${lane}'
            custom: {
              type: 'azure-servicebus'
              identity: platformIdentityResourceId
              metadata: {
                namespace: serviceBusName
                topicName: '${topology.directives.prefix}${lane}'
                subscriptionName: service
                messageCount: '1'
              }
            }
          }
        ]
      }
    }
  }
}

@description('Name of the container app.')
output name string = app.name
