metadata name = 'Network'
metadata description = 'Virtual network of an isolated deployment, with subnets for the app, private endpoints, self-hosted runners and container apps.'

import { tagsType } from 'shapes.bicep'

@description('Required. Name of the virtual network.')
@minLength(2)
@maxLength(64)
param name string

@description('Required. Region.')
param location string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Optional. Address space, a /22 or larger.')
param addressPrefix string = '10.40.0.0/22'

@description('Required. Service to which the app\'s subnet is delegated. Flex Consumption needs Microsoft.App/environments. Other plans need Microsoft.Web/serverFarms.')
@allowed([
  'Microsoft.App/environments'
  'Microsoft.Web/serverFarms'
])
param appSubnetDelegation string

@description('Required. Resource id of the Log Analytics workspace for diagnostics.')
param workspaceResourceId string

resource securityGroup 'Microsoft.Network/networkSecurityGroups@2025-05-01' = {
  name: 'nsg-${name}'
  location: location
  tags: tags
  properties: {
    securityRules: [
      {
        name: 'AllowVirtualNetworkHttpsAndAmqpInbound'
        properties: {
          description: 'Allows HTTPS and AMQP from the virtual network and connected networks.'
          priority: 100
          direction: 'Inbound'
          access: 'Allow'
          protocol: 'Tcp'
          sourceAddressPrefix: 'VirtualNetwork'
          sourcePortRange: '*'
          destinationAddressPrefix: 'VirtualNetwork'
          destinationPortRanges: [
            '443'
            '5671'
            '5672'
          ]
        }
      }
      {
        name: 'DenyInternetInbound'
        properties: {
          description: 'Denies all traffic from the internet.'
          priority: 4000
          direction: 'Inbound'
          access: 'Deny'
          protocol: '*'
          sourceAddressPrefix: 'Internet'
          sourcePortRange: '*'
          destinationAddressPrefix: '*'
          destinationPortRange: '*'
        }
      }
    ]
  }
}

resource virtualNetwork 'Microsoft.Network/virtualNetworks@2025-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    addressSpace: {
      addressPrefixes: [
        addressPrefix
      ]
    }
  }
}

// Each subnet is a separate resource, because a list in the network deletes every subnet that the list lacks. The subnets
// are deployed one after the other, since a network accepts one change at a time.
resource appSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: virtualNetwork
  name: 'snet-app'
  properties: {
    addressPrefix: cidrSubnet(addressPrefix, 24, 0)
    networkSecurityGroup: {
      id: securityGroup.id
    }
    delegations: [
      {
        name: 'app'
        properties: {
          serviceName: appSubnetDelegation
        }
      }
    ]
  }
}

resource endpointSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: virtualNetwork
  name: 'snet-private-endpoints'
  properties: {
    addressPrefix: cidrSubnet(addressPrefix, 24, 1)
    privateEndpointNetworkPolicies: 'Enabled'
    // a private endpoint opens no connection, so its subnet needs no outbound access
    defaultOutboundAccess: false
    networkSecurityGroup: {
      id: securityGroup.id
    }
  }
  dependsOn: [
    appSubnet
  ]
}

resource serviceSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: virtualNetwork
  name: 'snet-services'
  properties: {
    addressPrefix: cidrSubnet(addressPrefix, 24, 2)
    networkSecurityGroup: {
      id: securityGroup.id
    }
  }
  dependsOn: [
    endpointSubnet
  ]
}

resource containerSubnet 'Microsoft.Network/virtualNetworks/subnets@2025-05-01' = {
  parent: virtualNetwork
  name: 'snet-container-apps'
  properties: {
    addressPrefix: cidrSubnet(addressPrefix, 24, 3)
    networkSecurityGroup: {
      id: securityGroup.id
    }
    delegations: [
      {
        name: 'container-apps'
        properties: {
          serviceName: 'Microsoft.App/environments'
        }
      }
    ]
  }
  dependsOn: [
    serviceSubnet
  ]
}

resource diagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: virtualNetwork
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      {
        categoryGroup: 'allLogs'
        enabled: true
      }
    ]
    metrics: [
      {
        category: 'AllMetrics'
        enabled: true
      }
    ]
  }
}

resource securityDiagnostics 'Microsoft.Insights/diagnosticSettings@2021-05-01-preview' = {
  name: 'to-log-analytics'
  scope: securityGroup
  properties: {
    workspaceId: workspaceResourceId
    logs: [
      {
        categoryGroup: 'allLogs'
        enabled: true
      }
    ]
  }
}

@description('Resource id of the virtual network.')
output resourceId string = virtualNetwork.id

@description('Resource id of the subnet that the app integrates into.')
output appSubnetResourceId string = appSubnet.id

@description('Resource id of the subnet for self-hosted runners.')
output serviceSubnetResourceId string = serviceSubnet.id

@description('Resource id of the subnet of container apps.')
output containerSubnetResourceId string = containerSubnet.id

@description('Resource id of the subnet of private endpoints.')
output endpointSubnetResourceId string = endpointSubnet.id
