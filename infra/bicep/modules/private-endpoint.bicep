metadata name = 'Private endpoint'
metadata description = 'One private endpoint of one service, and its records in private DNS zones.'

import { tagsType } from 'shapes.bicep'

@description('Required. Name of the private endpoint.')
@minLength(2)
@maxLength(64)
param name string

@description('Required. Region of the subnet.')
param location string

@description('Optional. Tags of the resource.')
param tags tagsType = {}

@description('Required. Resource id of the endpoint\'s subnet.')
param subnetResourceId string

@description('Required. Resource id of the target.')
param targetResourceId string

@description('Required. Sub-resource of the target, for example `blob`.')
@minLength(2)
param groupId string

@description('Required. Resource ids of the private DNS zones that get the endpoint\'s records. Empty ids mean that a policy writes the records.')
@minLength(1)
param zoneResourceIds string[]

resource privateEndpoint 'Microsoft.Network/privateEndpoints@2025-05-01' = {
  name: name
  location: location
  tags: tags
  properties: {
    customNetworkInterfaceName: '${name}-nic'
    subnet: {
      id: subnetResourceId
    }
    privateLinkServiceConnections: [
      {
        name: name
        properties: {
          privateLinkServiceId: targetResourceId
          groupIds: [
            groupId
          ]
        }
      }
    ]
  }
}

resource zoneGroup 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2025-05-01' = if (!empty(zoneResourceIds[0])) {
  parent: privateEndpoint
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      for zone in zoneResourceIds: {
        name: replace(last(split(zone, '/')), '.', '-')
        properties: {
          // the id comes from a parameter, so no resource function can make it
          #disable-next-line use-resource-id-functions
          privateDnsZoneId: zone
        }
      }
    ]
  }
}

@description('Resource id of the private endpoint.')
output resourceId string = privateEndpoint.id
