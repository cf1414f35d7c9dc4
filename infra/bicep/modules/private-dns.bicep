metadata name = 'Private DNS'
metadata description = 'The private DNS zones of an isolated deployment: new zones that a network resolves, zones of a resource group, or none.'

import { zonesType } from 'shapes.bicep'
import { tagsType } from 'shapes.bicep'

@description('Required. Resource id of the virtual network that resolves the new zones.')
param virtualNetworkResourceId string

@description('Optional. Tags of the resources.')
param tags tagsType = {}

@description('Required. Resource id of the resource group that has the zones. If empty, the template creates zones. `none` means that a policy writes the records.')
param zoneResourceGroupId string

var zoneNames = {
  blob: 'privatelink.blob.${environment().suffixes.storage}'
  queue: 'privatelink.queue.${environment().suffixes.storage}'
  table: 'privatelink.table.${environment().suffixes.storage}'
  serviceBus: 'privatelink.servicebus.windows.net'
  appConfiguration: 'privatelink.azconfig.io'
  keyVault: 'privatelink.vaultcore.azure.net'
  sites: 'privatelink.azurewebsites.net'
  durableTask: 'privatelink.durabletask.io'
  monitor: 'privatelink.monitor.azure.com'
  oms: 'privatelink.oms.opinsights.azure.com'
  ods: 'privatelink.ods.opinsights.azure.com'
  agents: 'privatelink.agentsvc.azure-automation.net'
}
var zoneKeys = map(items(zoneNames), zone => zone.key)
var zoneList = map(items(zoneNames), zone => zone.value)
var created = empty(zoneResourceGroupId)
var existing = toObject(
  items(zoneNames),
  zone => zone.key,
  zone =>
    zoneResourceGroupId == 'none'
      ? ''
      : '${zoneResourceGroupId}/providers/Microsoft.Network/privateDnsZones/${zone.value}'
)

resource zones 'Microsoft.Network/privateDnsZones@2024-06-01' = [
  for zone in zoneList: if (created) {
    name: zone
    location: 'global'
    tags: tags
  }
]

resource zoneLinks 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [
  for (zone, index) in zoneList: if (created) {
    parent: zones[index]
    name: last(split(virtualNetworkResourceId, '/'))
    location: 'global'
    tags: tags
    properties: {
      registrationEnabled: false
      virtualNetwork: {
        // the id comes from a parameter, so no resource function can make it
        #disable-next-line use-resource-id-functions
        id: virtualNetworkResourceId
      }
    }
  }
]

@description('Resource ids of the zones, by service. Empty if a policy writes the records.')
output zones zonesType = {
  blob: created ? zones[indexOf(zoneKeys, 'blob')].id : existing.blob
  queue: created ? zones[indexOf(zoneKeys, 'queue')].id : existing.queue
  table: created ? zones[indexOf(zoneKeys, 'table')].id : existing.table
  serviceBus: created ? zones[indexOf(zoneKeys, 'serviceBus')].id : existing.serviceBus
  appConfiguration: created ? zones[indexOf(zoneKeys, 'appConfiguration')].id : existing.appConfiguration
  keyVault: created ? zones[indexOf(zoneKeys, 'keyVault')].id : existing.keyVault
  sites: created ? zones[indexOf(zoneKeys, 'sites')].id : existing.sites
  durableTask: created ? zones[indexOf(zoneKeys, 'durableTask')].id : existing.durableTask
}

@description('Resource ids of the zones of Azure Monitor, including the blob zone.')
output monitorZoneResourceIds string[] = [
  created ? zones[indexOf(zoneKeys, 'monitor')].id : existing.monitor
  created ? zones[indexOf(zoneKeys, 'oms')].id : existing.oms
  created ? zones[indexOf(zoneKeys, 'ods')].id : existing.ods
  created ? zones[indexOf(zoneKeys, 'agents')].id : existing.agents
  created ? zones[indexOf(zoneKeys, 'blob')].id : existing.blob
]
