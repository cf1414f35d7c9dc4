metadata name = 'Shapes'
metadata description = 'Types that at least two modules use. The module deploys nothing.'

@export()
@description('Tags of a resource, by name.')
type tagsType = {
  @description('Optional. Value of the tag with this name.')
  *: string
}

@export()
@description('Ids of an identity.')
@sealed()
type identityType = {
  @description('Required. Resource id.')
  resourceId: string

  @description('Required. Client id.')
  clientId: string
}

@export()
@description('Settings of private endpoints.')
@sealed()
type privateAccessType = {
  @description('Required. Resource id of the subnet of private endpoints.')
  subnetResourceId: string

  @description('Required. Private DNS zones, by service.')
  zones: zonesType
}

@export()
@description('Resource ids of private DNS zones, by service. Empty if a policy writes the records.')
@sealed()
type zonesType = {
  @description('Required. Zone of blob endpoints.')
  blob: string

  @description('Required. Zone of queue endpoints.')
  queue: string

  @description('Required. Zone of table endpoints.')
  table: string

  @description('Required. Zone of Service Bus namespaces.')
  serviceBus: string

  @description('Required. Zone of App Configuration stores.')
  appConfiguration: string

  @description('Required. Zone of key vaults.')
  keyVault: string

  @description('Required. Zone of App Service sites.')
  sites: string

  @description('Required. Zone of Durable Task Scheduler endpoints.')
  durableTask: string
}

@export()
@description('An existing virtual network, by its subnets.')
@sealed()
type ownNetworkType = {
  @description('Required. Resource id of the app\'s subnet, delegated to Microsoft.App/environments on Flex Consumption, and to Microsoft.Web/serverFarms on other plans.')
  appSubnetResourceId: string

  @description('Required. Resource id of the subnet of private endpoints.')
  endpointSubnetResourceId: string

  @description('Optional. Resource id of the subnet of container apps. Required with container apps. The subnet must be a /27 or larger, without other resources, and delegated to Microsoft.App/environments.')
  containerSubnetResourceId: string?
}

@export()
@description('A role of an identity on the resource of the module.')
@sealed()
type roleAssignmentType = {
  @description('Required. Object id of the identity.')
  principalId: string

  @description('Required. Id of the built-in role, from `roles.bicep`.')
  role: string

  @description('Optional. Type of the identity. Default: ServicePrincipal, for managed identities.')
  principalType: ('ServicePrincipal' | 'User' | 'Group')?
}

@export()
@description('An identity or group that gets roles.')
@sealed()
type holderType = {
  @description('Required. Object id.')
  principalId: string

  @description('Required. Type of the identity.')
  principalType: 'ServicePrincipal' | 'User' | 'Group'
}
