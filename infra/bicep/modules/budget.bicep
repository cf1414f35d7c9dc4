metadata name = 'Budget'
metadata description = 'A monthly budget of the resource group, with notifications at 50 % and 90 % of the amount, and at a forecast over 100 %.'

@description('Required. Name of the budget.')
@minLength(1)
@maxLength(63)
param name string

@description('Required. Monthly budget in the billing currency.')
@minValue(1)
param amount int

@description('Required. Email addresses that receive budget notifications.')
@minLength(1)
param emails string[]

@description('Required. First day of the month in which the budget is created. Azure refuses to change this date.')
@minLength(10)
param startDate string

resource budget 'Microsoft.Consumption/budgets@2023-11-01' = {
  name: name
  properties: {
    category: 'Cost'
    amount: amount
    timeGrain: 'Monthly'
    timePeriod: {
      startDate: startDate
    }
    notifications: {
      half: {
        enabled: true
        operator: 'GreaterThanOrEqualTo'
        threshold: 50
        thresholdType: 'Actual'
        contactEmails: emails
      }
      nearlyAll: {
        enabled: true
        operator: 'GreaterThanOrEqualTo'
        threshold: 90
        thresholdType: 'Actual'
        contactEmails: emails
      }
      forecastOver: {
        enabled: true
        operator: 'GreaterThan'
        threshold: 100
        thresholdType: 'Forecasted'
        contactEmails: emails
      }
    }
  }
}

@description('Resource id of the budget.')
output resourceId string = budget.id
