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
@description('The mode of a tenant.')
@sealed()
type tenantModeType = {
  @description('Required. The tenant, in lower case and without blanks around it.')
  tenant: string

  @description('Required. How its requests are routed.')
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

// A name consists of key and label; other characters are percent-encoded with a tilde.
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

// Written last, with a new value only if another key changed: the app then reads the other keys again.
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
