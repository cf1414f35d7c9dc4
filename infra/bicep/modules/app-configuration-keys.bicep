metadata name = 'App Configuration keys'
metadata description = 'Protocols, their payload schemas and modes, under the keys of docs/reference/app-configuration.md. The deploying identity needs the role App Configuration Data Owner.'

@description('Required. Name of the store.')
param storeName string

@description('Optional. Mode of requests without a mode: DEFAULT or BURST.')
@allowed([
  'DEFAULT'
  'BURST'
])
param defaultMode string = 'DEFAULT'

@description('Optional. Modes of requests without a mode, by tenant.')
param tenantModes tenantModeType[] = []

@export()
@description('Mode of a tenant\'s job requests that name no mode.')
@sealed()
type tenantModeType = {
  @description('Required. Name of the tenant, in lower case and without leading or trailing blanks.')
  tenant: string

  @description('Required. Default mode of the tenant\'s job requests.')
  mode: 'DEFAULT' | 'BURST'
}

var text = 'text/plain'

// generated from protocols/ by `make generate`
var packaged = loadJsonContent('../protocols.json')
var modes = map(tenantModes, entry => { key: 'lucius:tenants:${entry.tenant}:mode', value: entry.mode, type: text })
var keys = concat(packaged, [{ key: 'lucius:defaults:mode', value: defaultMode, type: text }], modes)

resource store 'Microsoft.AppConfiguration/configurationStores@2024-06-01' existing = {
  name: storeName
}

// The resource's name is the key, percent-encoded with a tilde in place of the percent sign.
resource keyValues 'Microsoft.AppConfiguration/configurationStores/keyValues@2024-06-01' = [
  for entry in keys: {
    parent: store
    name: replace(uriComponent(entry.key), '%', '~')
    properties: {
      value: entry.value
      contentType: entry.type
    }
  }
]

// The sentinel is written last. Its value changes only if another key changed, and then the app reads all keys again.
resource sentinel 'Microsoft.AppConfiguration/configurationStores/keyValues@2024-06-01' = {
  parent: store
  name: replace(uriComponent('lucius:sentinel'), '%', '~')
  properties: {
    value: uniqueString(string(keys))
    contentType: text
  }
  dependsOn: [
    keyValues
  ]
}
